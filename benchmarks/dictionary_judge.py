"""What the dictionary benchmark compares with: one common coder, SPAMS, patches of photographs, plain PALM."""

from __future__ import annotations

import os
import time

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from tecu.dictionary import coding
from tecu.dictionary.data import PLANTED, table_data

LONGEST = 40  # atoms on a path


def judged(X, D, penalty):
    """``penalty nnz + 1/2 ||X - W D||^2`` with each sample at the best length of its OMP path, in float64."""
    X, D = (np.ascontiguousarray(array, np.float64) for array in (X, D))  # rivals' dictionaries may go by columns
    D = D / np.maximum(np.linalg.norm(D, axis=1, keepdims=True), 1e-12)
    G, total = D @ D.T, 0.0
    for first in range(0, len(X), 2000):
        Y = X[first : first + 2000]
        W = coding.greedy(Y, D, G, stop=0.01 * penalty, penalty=penalty, cap=LONGEST).csr(len(D))
        total += penalty * W.nnz + 0.5 * np.sum((Y - W @ D) ** 2)
    return float(total)


def error_at(X, D, nonzero):
    """``||X - W D||^2`` with ``nonzero`` atoms a sample, by OMP."""
    X, D = (np.ascontiguousarray(array, np.float64) for array in (X, D))  # rivals' dictionaries may go by columns
    D = D / np.maximum(np.linalg.norm(D, axis=1, keepdims=True), 1e-12)
    W = coding.greedy(X, D, D @ D.T, stop=0.0, cap=nonzero).csr(len(D))
    return float(np.sum((X - W @ D) ** 2))


def recovered(D, truth):
    """The share of planted atoms that some learned atom meets with a cosine above 0.95."""
    return float(np.mean(np.abs(truth @ D.T).max(axis=1) > 0.95))


def planted(n, seed):
    """Data ``S`` in float32, samples as rows."""
    data = table_data("S", n, seed, np.float32)
    return np.ascontiguousarray(data.Y.T), np.ascontiguousarray(data.D0.T), data.penalty, PLANTED[n], data.components


def photo_patches(seed, samples=10000, side=12, atoms=900, relative=3e-3, nonzero=8, raw=False):
    """Patches of the photographs inside scikit-image and scikit-learn, in float32, mean removed unless ``raw``.

    The penalty is a share of their energy without the mean.
    """
    from skimage import data
    from sklearn.datasets import load_sample_images

    rng = np.random.RandomState(seed)
    photos = [
        np.asarray(getattr(data, name)(), float) for name in ("camera", "astronaut", "coffee", "chelsea", "rocket")
    ]
    photos += [np.asarray(photo, float) for photo in load_sample_images().images]
    photos = [photo[..., :3] @ [0.299, 0.587, 0.114] if photo.ndim == 3 else photo for photo in photos]
    shares = rng.multinomial(samples, np.array([p.size for p in photos]) / sum(p.size for p in photos))
    patches = []
    for photo, count in zip(photos, shares, strict=True):
        rows = rng.randint(0, photo.shape[0] - side + 1, count)
        columns = rng.randint(0, photo.shape[1] - side + 1, count)
        patches += [photo[r : r + side, c : c + side].ravel() / 255 for r, c in zip(rows, columns, strict=True)]
    X = np.array(patches)[rng.permutation(samples)]
    centred = X - X.mean(axis=1, keepdims=True)
    X = (X if raw else centred).astype(np.float32)
    useful = np.flatnonzero(np.sum(X**2, axis=1) > 1e-8)
    D0 = X[rng.choice(useful, atoms, replace=False)]
    D0 = D0 / np.linalg.norm(D0, axis=1, keepdims=True)
    return X, D0, relative * float(np.mean(np.sum(centred**2, axis=1))), nonzero, None


def load_spams():
    """SPAMS' ``trainDL`` at its best: the old BLAS that it brings takes a newer processor for the slowest it knows."""
    known = [library["architecture"] for library in threadpool_info() if library.get("internal_api") == "openblas"]
    if known:
        os.environ.setdefault("OPENBLAS_CORETYPE", known[0])  # what NumPy's own BLAS takes it for; read when it loads
    from spams import trainDL

    return trainDL


def spams(X, D0, penalty, nonzero):
    """The better of SPAMS' modes 3 (L = k) and 5 (4 lambda), 120 iterations of 512: its dictionary and CPU seconds."""
    trainDL = load_spams()
    Y, start = np.asfortranarray(X.T), np.asfortranarray(D0.T)
    best = None
    for mode, parameter in ((3, nonzero), (5, 4 * penalty)):
        began = time.process_time()
        with threadpool_limits(1):  # its BLAS, too, which has just been loaded
            D = trainDL(
                Y, D=start, K=len(D0), mode=mode, lambda1=parameter, iter=120, batchsize=512, numThreads=1,
                verbose=False,
            )  # fmt: skip
        seconds = time.process_time() - began
        value = judged(X, np.ascontiguousarray(D.T), penalty)
        if best is None or value < best[0]:
            best = (value, seconds, np.ascontiguousarray(D.T))
    return best


def plain_palm(Y, D, penalty, iterations):
    """PALM as one writes it down: float64, dense, the constants by SVD."""
    W = np.zeros((Y.shape[1], D.shape[1]))
    for _ in range(iterations):
        gamma = 1.1 * np.linalg.svd(D, compute_uv=False)[0] ** 2
        W = W - (W @ D.T - Y.T) @ D / gamma
        W[2 * penalty / gamma >= W * W] = 0
        gamma = 1.1 * np.linalg.svd(W, compute_uv=False)[0] ** 2 or 1.0
        D = D - (D @ W.T - Y) @ W / gamma
        D /= np.linalg.norm(D, axis=0)
    return penalty * np.count_nonzero(W) + 0.5 * np.sum((Y - D @ W.T) ** 2)
