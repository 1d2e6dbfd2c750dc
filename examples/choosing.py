"""The experiments behind docs/choosing.md: which update, which eta, c and tau, which inner accuracy.

Three problems of the other examples, small. Each setting runs until the objective is within 0.1 % of the lowest seen
by any setting of the table from the same start, or to the cap. CPU seconds, on one thread. Where a table does not say
otherwise, a block is embedded with ``eta = 0.01 L``, ``c = eta / 4`` and at most 200 inner steps.
"""

import time

import numpy as np
from side_by_side import blur_and_sample, options, smooth_tv
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import tecu
from tecu import couplings, stop, strategies, terms

CAP = 150


def nmf():
    """Both factors non-negative; both blocks embedded."""
    X = load_digits().data[:400] / 16
    random = np.random.default_rng(0)
    start = {"W": random.random((400, 10)) * 0.3, "D": random.random((64, 10)) * 0.3}
    problem = tecu.Problem(couplings.MatrixFactorization(X.T), {"W": terms.NonNegative(), "D": terms.NonNegative()})
    return problem, start, ("W", "D"), strategies.FISTA


def sparse_pca():
    """L1 times the unit ball; both blocks embedded."""
    X = load_digits().data[:400]
    X = X - X.mean(axis=0)
    U = np.linalg.qr(X @ np.random.default_rng(0).standard_normal((64, 6)))[0]
    H = couplings.MatrixFactorization(X, codes="V", dictionary="U")
    problem = tecu.Problem(H, {"V": terms.L1(6.0), "U": terms.UnitColumns(ball=True)})
    return problem, {"V": X.T @ U, "U": U}, ("V", "U"), strategies.FISTA


def deblurring():
    """The half-quadratic split with a smoothed TV; the block v is embedded, x is exact up to conjugate gradients."""
    A, random = blur_and_sample(48, 1), np.random.default_rng(0)
    truth = np.kron(random.random((6, 6)), np.ones((8, 8)))
    b = A.matvec(truth.ravel()) + random.normal(0, 0.01, A.shape[0])
    H = couplings.Linear(A, b) + couplings.Difference("x", "v", 0.1) + smooth_tv("v", 2.5e-3, 5e-3)
    problem = tecu.Problem(H, {"x": terms.Zero(), "v": terms.Box(0.0, 1.0)})
    start = np.clip(A.rmatvec(b).reshape(48, 48), 0, 1)
    return problem, {"x": start, "v": start}, ("v",), strategies.FISTA


PROBLEMS = {"NMF": nmf, "sparse PCA": sparse_pca, "deblurring": deblurring}


def table(title, problem_name, settings, cap):
    """Run every setting; print sweeps, inner steps, seconds to the common goal, and the verdict."""
    problem, start, embedded, strategy = PROBLEMS[problem_name]()
    constants = {block: problem.coupling.lipschitz(block, start) for block in problem.blocks}
    runs = {}
    for name, make in settings.items():
        updates = dict.fromkeys(problem.blocks, None)
        for block in problem.blocks:
            exact = tecu.Embed(strategies.PCG(), eta=1e-3)
            updates[block] = make(strategy(), constants[block]) if block in embedded else exact
        began = time.process_time()
        result = tecu.Solver(problem, updates).run(start, stop=stop.MaxIter(cap))
        runs[name] = result, time.process_time() - began
    goal = 1.001 * min(result.value for result, _ in runs.values())
    print(f"\n{title} ({problem_name})\n\n| setting | sweeps | inner steps | CPU s | fallbacks | certificate |")
    print("|---|---|---|---|---|---|")
    for name, (result, seconds) in runs.items():
        values = result.history["value"]
        reached = np.flatnonzero(values <= goal)
        k = int(reached[0]) if len(reached) else None
        inner = sum(v.inner for v in result.state.visits if v.block in embedded and (k is None or v.sweep <= k))
        spent = seconds * (1 if k is None else k / result.iterations)
        sweeps = f"> {result.iterations}, {values[-1] / goal * 1.001:.3f} of the lowest" if k is None else k
        verdict = result.certificate.verdict.name.lower().replace("_", " ")
        print(f"| {name} | {sweeps} | {inner} | {spent:.2f} | {result.certificate.fallbacks} | {verdict} |", flush=True)


def embed(**settings):
    """Embed with ``eta`` and ``c`` given as shares: of the Lipschitz constant, and of eta."""

    def make(strategy, L):
        eta = settings.get("eta", 0.01) * L
        tolerance = settings.get("tolerance")
        rule = {"tolerance": tolerance} if tolerance else {"c": settings.get("c", 0.25) * eta}
        return tecu.Embed(strategy, eta=eta, tau=settings.get("tau"), max_inner=settings.get("max_inner", 200), **rule)

    return make


def main():
    """All tables."""
    cap = 5 if options(__doc__).quick else CAP
    with threadpool_limits(1):
        for name in PROBLEMS:
            updates = {
                "ProxLinear()": lambda s, L: tecu.ProxLinear(),
                "ProxLinear(extrapolation=Nesterov())": lambda s, L: tecu.ProxLinear(extrapolation=tecu.Nesterov()),
                "Embed(FISTA())": lambda s, L: tecu.Embed(s),
                "Embed(FISTA(), eta=0.01 L, max_inner=200)": embed(),
                "Embed(FISTA(), eta=0.01 L, max_inner=5, at_cap='keep_if_covered')": lambda s, L: tecu.Embed(
                    s, eta=0.01 * L, max_inner=5, at_cap="keep_if_covered"
                ),
            }
            table("Which update", name, updates, cap)
            table("eta", name, {f"eta = {share:g} L": embed(eta=share) for share in (1e-3, 1e-2, 0.1, 1.0)}, cap)
            accuracy = {f"moving, c = {share:g} eta": embed(c=share) for share in (0.05, 0.25, 0.49)}
            for bound in (1.0, 1e-2, 1e-4):
                accuracy[f"fixed, {bound:g}"] = embed(tolerance=tecu.FixedTolerance(bound))
            accuracy["summable, 1 / (k + 1)^1.5"] = embed(tolerance=tecu.SummableTolerance(1.0))
            table("Inner accuracy", name, accuracy, cap)
        table("tau", "sparse PCA", {"tau = L + eta": embed(), "tau = 1": embed(tau=1.0)}, cap)


if __name__ == "__main__":
    main()
