"""Loose passes over the data: the way to a dictionary to start from.

Loose first: with a bad dictionary a small penalty commits each sample to many wrong atoms, and the dictionary to
them. So the first passes take only atoms that lower a sample's error by many times the penalty, and totals forget
quickly; both tighten from stage to stage, mostly from pass to pass. Such passes need not descend: they come before the
first sweep that is certified.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from tecu.dictionary.absorption import Batch
from tecu.dictionary.coding import Matrix
from tecu.dictionary.judged import Judged
from tecu.dictionary.online import Coder, OnlineDictionary
from tecu.dictionary.parameters import Checked, start_dictionary
from tecu.dictionary.replacement import replace_atoms
from tecu.dictionary.rows import Rows
from tecu.dictionary.workers import Workers
from tecu.progress import progress_line

log = logging.getLogger("tecu")

FIRST_GAIN, LEAST_SHARE, MOST_SHARE = 16.0, 0.045, 0.1
"""The gain an atom must bring at first, in units of the penalty; what share of a sample's mean square that is at least,
and at most (:func:`gains`)."""

FIRST_LENGTH = 0.5
"""The same for a fixed number of atoms a sample: the share of it that codes take at first."""


@dataclass(frozen=True)
class Stage:
    """Batches that are coded alike: how tight, from 0 to 1; ``memory`` is how far back their totals reach.

    ``memory`` and ``share``, the samples that are seen, are shares of a pass. At its end a stage may replace atoms.
    """

    tightness: float
    memory: float
    share: float = 1.0
    replaces: bool = True


STAGES = (Stage(0.0, 0.3, replaces=False), Stage(0.0, 0.3), Stage(0.5, 0.5), Stage(1.0, 0.8))
"""Four passes. Of three the last is left out, which is of use only after three others."""

LOOSEST_BATCHES, LEAST_MORE, MOST_MORE = 18, 1, 4
"""Atoms are found while codes are loosest: of more passes, all others are as loose as the second. There is one more, or
up to four as long as the loosest have not had so many batches."""

STAGES_OF_TWO = (
    Stage(0.0, 0.25, 1 / 2, replaces=False),
    Stage(0.0, 0.25, 1 / 2),
    Stage(0.5, 0.4, 1 / 2),
    Stage(0.75, 0.5, 1 / 2),
)
STAGES_OF_ONE = tuple(Stage(tightness, 0.25, 1 / 3, replaces=False) for tightness in (0.0, 0.5, 0.75))
"""Fewer passes are cut: to go all the way from loose to tight is worth more than to see each sample at each stage."""

COLUMNS = ("seconds", "value", "nonzeros", "replaced")
"""What a stage tells: when it ended, counted from the first; the objective, each sample with the code that the stage
gave it and with the atoms as they were then; coefficients a sample; atoms replaced at its end."""

MORE_BATCHES, LEAST_BATCHES = 4 / 3, 3
"""A pass has so many times as many batches then; it is cut where that gives each part so many of them."""

BATCH = 1.8
"""Samples between two dictionary updates, as a multiple of the number of atoms."""

FEW_BATCHES, SHORT_BATCH = 6, 1.1
"""A pass of fewer batches takes shorter ones, down to this multiple: it needs the updates more than they cost."""

SAMPLES_AN_ATOM, LEAST_SAMPLES = 48, 10_000
"""What a pass looks at. Of more samples each pass takes another part: to see all of them loosely takes longer and is no
better."""

SMALLEST_BATCH = 64
"""Samples, in a pass that is not cut."""

SEEN = 1000
"""Samples that are looked at to see how large numbers are."""

USUAL = 12
"""Samples whose largest number is between ``2^-12`` and ``2^12`` are taken as they are."""


@dataclass(frozen=True)
class Start:
    """A dictionary to start from, and what the stages that led to it have told: a row of ``COLUMNS`` each."""

    D: Matrix
    stages: Matrix = field(default_factory=lambda: np.empty((0, len(COLUMNS))))

    @property
    def replaced(self) -> int:
        """How many atoms were replaced."""
        return int(np.sum(self.stages[:, COLUMNS.index("replaced")]))

    @property
    def history(self) -> dict[str, Matrix]:
        """The columns by name."""
        return {name: self.stages[:, i].copy() for i, name in enumerate(COLUMNS)}


def start_of(
    checked: Checked,
    rows: Rows,
    random: np.random.RandomState,
    *,
    passes: int,
    team: Workers | None = None,
    verbose: bool = False,
    samples: int | None = None,
) -> Start:
    """Where a fit of these parameters starts: ``init`` as it is, or after loose passes.

    ``rows`` may be some of the ``samples``, from which the objective of all is estimated then.
    """
    D = start_dictionary(checked, rows, random)
    if not checked.is_greedy:
        return Start(D)
    with progress_line(verbose) as show:
        return loose_start(
            rows, D, checked.coder, random, ball=checked.ball, team=team, passes=passes, report=show, samples=samples
        )


def loose_start(
    rows: Rows,
    D: Matrix,
    coder: Coder,
    random: np.random.RandomState,
    *,
    ball: bool = False,
    team: Workers | None = None,
    passes: int = len(STAGES) + MOST_MORE,
    report: Callable[[str], None] = lambda sentence: None,
    samples: int | None = None,
) -> Start:
    """Loose passes over the data: from five to eight, or ``passes`` if that is less.

    These go through stages from loose to tight (:func:`stages_of`).
    """
    began, m = time.perf_counter(), len(D)
    unit, square = scale_of(rows)
    coder = replace(coder, penalty=coder.penalty * unit * unit, lower=coder.lower * unit, upper=coder.upper * unit)
    online = OnlineDictionary(D, coder, ball, team)
    usual, seen = batches_of_a_pass(len(rows), m)
    first, last = gains(coder.penalty, square)
    stages = stages_of(passes, usual)
    counts = [stage_batches(stage, usual) for stage in stages]
    told = []

    def begun() -> Iterator[Batch]:
        """The batches of all stages."""
        waiting = np.arange(0)
        for stage, count in zip(stages, counts, strict=True):
            size = max(1, int(stage.share * seen))
            if len(waiting) < size:
                waiting = random.permutation(len(rows))
            looseness = first ** (1.0 - stage.tightness) * last**stage.tightness
            share = FIRST_LENGTH + (1.0 - FIRST_LENGTH) * stage.tightness
            for batch in np.array_split(waiting[:size], count):
                yield coder.batch(_scaled(rows, np.sort(batch), unit), looseness, share)
            waiting = waiting[size:]

    def of_a_stage(count: int) -> Iterator[Batch]:
        """So many of them, and the first one of the next stage is fetched while the last one is worked on."""
        for _ in range(count):
            yield fetched.pop()
            fetched.extend(islice(ahead, 1))

    ahead = begun()
    fetched = [next(ahead)]
    for number, (stage, count) in enumerate(zip(stages, counts, strict=True), 1):
        judged, replaced = Judged(D, worst=stage.replaces), 0
        online.absorb(of_a_stage(count), max(0.0, 1.0 - stage.share / (stage.memory * count)), judged)
        if stage.replaces:
            slots = replace_atoms(online.D, judged.energy, judged.largest_misfits()[0], online.team)
            online.forget(slots)
            replaced = len(slots)
        value = judged.mean_objective(coder.penalty) / unit**2 * (samples or len(rows))
        row = (time.perf_counter() - began, value, judged.nonzeros / judged.samples, replaced)
        told.append(row)
        sentence = (
            f"loose stage {number} of {len(stages)}: objective {value:.6g}, {row[2]:.2g} coefficients a sample, "
            f"{replaced} atoms replaced, {row[0]:.1f} s"
        )
        log.info(sentence)
        report(sentence)
    return Start(online.D, np.array(told))


def stages_of(passes: int, batches: int) -> tuple[Stage, ...]:
    """The stages of at most so many passes, each usually of so many ``batches``.

    >>> [len(stages_of(passes, batches=6)) for passes in (3, 4, 5, 100)], len(stages_of(100, batches=1))
    ([3, 4, 5, 5], 8)
    """
    cut = {1: STAGES_OF_ONE, 2: STAGES_OF_TWO}.get(passes, ())
    if cut and all(stage_batches(stage, batches) >= LEAST_BATCHES for stage in cut):
        return cut
    if passes > len(STAGES):
        wanted = min(max(-(-LOOSEST_BATCHES // batches) - 2, LEAST_MORE), MOST_MORE)
        return (*STAGES[:2], *[STAGES[1]] * min(passes - len(STAGES), wanted), *STAGES[2:])
    return {1: (replace(STAGES[2], replaces=False),), 2: STAGES[:3:2]}.get(passes, STAGES[:passes])


def stage_batches(stage: Stage, usual: int) -> int:
    """How many batches a stage has where a pass usually has so many."""
    return usual if stage.share == 1.0 else max(1, round(stage.share * MORE_BATCHES * usual))


def batches_of_a_pass(samples: int, atoms: int) -> tuple[int, int]:
    """Into how many batches a pass is cut, and how many samples it takes in all."""
    seen = min(samples, max(SAMPLES_AN_ATOM * atoms, LEAST_SAMPLES))
    long, short = (seen / max(multiple * atoms, SMALLEST_BATCH) for multiple in (BATCH, SHORT_BATCH))
    return max(1, round(min(short, max(long, FEW_BATCHES)))), seen


def _scaled(rows: Rows, chosen: Matrix, unit: float) -> Matrix:
    samples = rows[chosen]
    return samples if unit == 1.0 else samples * samples.dtype.type(unit)


def gains(penalty: float, square: float) -> tuple[float, float]:
    r"""The gain an atom must bring at first and in the end, in units of the penalty; in between it is ``g^(1-t) h^t``.

    At first it is 16, but at least 4.5 % of ``square``, the mean squared length of a sample, and down to 8 where it
    would be more than 10 %. In the end it is 4, or a quarter of the first if that is less. So what an atom has to
    explain at first does not become small with the penalty: a code of many atoms that are all wrong teaches them
    nothing.

    >>> [round(gain, 1) for gain in gains(0.003, 1.0)], [round(gain, 1) for gain in gains(0.0005, 1.0)]
    ([16.0, 4.0], [90.0, 4.0])
    """
    ratio = square / penalty if penalty > 0 else 0.0
    first = max(LEAST_SHARE * ratio, min(FIRST_GAIN, max(FIRST_GAIN / 2, MOST_SHARE * ratio)))
    return first, min(FIRST_GAIN, first) / 4


def scale_of(rows: Rows) -> tuple[float, float]:
    """The power of two that brings samples of an odd size near 1, else 1, and their mean squared length in this unit.

    In it squares of totals stay in range. A part of the samples is looked at.
    """
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), SEEN)).astype(int)]
    exponent = int(np.frexp(np.max(np.abs(some)))[1])
    usual = abs(exponent) <= USUAL
    unit = 1.0 if usual else float(np.ldexp(1.0, -np.clip(exponent, -500, 500)))  # has a square, too
    return unit, float(np.mean(np.sum(np.square(some * some.dtype.type(unit), dtype=np.float64), axis=1)))
