"""Kernels do what their Python does, in every process the same, and numba is needed by the first one only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tecu.dictionary import kernels_atoms, kernels_audit, kernels_error
from tecu.dictionary.compiled import family as dictionary
from tecu.kernels import Family, Part, ahead, kept, machine
from tecu.kernels.words import (
    Bits,
    BitVector,
    Double,
    Doubles,
    Flag,
    Integer,
    Integers,
    LevelMatrix,
    LevelStack,
    Matrix,
    NaturalMatrix,
    Shorts,
    SingleStack,
    Vector,
    type_of,
)
from tecu.lowlight import kernels_bytes, kernels_denoise, kernels_tone
from tecu.lowlight.classical import kernels_hdrnet, kernels_npea
from tecu.lowlight.classical.compiled import family as classical
from tecu.lowlight.compiled import family as photos

family = Family("a test", Path(__file__).with_name("nothing.bitcode"))


@family.part
def _shifted(x, by):
    return x + by


@family.kernel
def weighted(data: Matrix, weight: Double, twice: Flag, places: Integers, sums: Vector) -> Double:
    """``weight`` times the sum of some rows, added to ``sums``; returns the sum of the squares."""
    square = 0.0
    for k in range(places.size):
        row = data[places[k]]
        for j in range(row.size):
            x = _shifted(weight * row[j], 1.0 if twice else 0.0)
            sums[j] += x
            square += np.float64(x) * np.float64(x)
    return square


@family.kernel
def count_bits(numbers: Vector, bits: BitVector, mask: Bits) -> Integer:
    """How many numbers have any of the bits of ``mask``."""
    count = np.int64(0)
    for i in range(numbers.size):
        count += (bits[i] & mask) != 0
    return count


SCALE = 3


@family.routine
def _scaled(x):
    return SCALE * np.uint32(x)


@family.kernel
def spread(
    levels: LevelMatrix, stack: LevelStack, shorts: Shorts, naturals: NaturalMatrix, means: SingleStack
) -> Integer:
    """Words of pixels: levels three times as large, and their halves as floats; returns the sum."""
    total = np.int64(0)
    for y in range(levels.shape[0]):
        for x in range(levels.shape[1]):
            naturals[y, x] = _scaled(levels[y, x])
            means[0, y, x] = np.float32(0.5) * np.float32(levels[y, x])
            stack[1, y, x] = levels[y, x]
            shorts[x] += np.uint16(levels[y, x])
            total += levels[y, x]
    return total


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for kernel in family.kernels:
        monkeypatch.setattr(kernel, "_native", {})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_does_what_its_python_does(dtype):
    rng = np.random.default_rng(0)
    data, places = rng.normal(size=(7, 5)).astype(dtype), np.array([6, 0, 0, 3])
    answers, sums = [], np.zeros((2, 5), dtype)
    for call, own in zip((weighted, weighted.function), sums, strict=True):
        answers.append(call(data, 0.3, True, places, own))
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-6)
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-5)
    numbers = np.array([1.0, -1.0, 0.0], dtype)
    bits = numbers.view(f"i{numbers.itemsize}")
    assert count_bits(numbers, bits, np.iinfo(bits.dtype).min) == 1  # the sign


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_kernel_of_pixels_does_what_its_python_does(dtype):
    levels = np.arange(6, dtype=dtype).reshape(2, 3) + np.iinfo(dtype).max // 4
    answers = []
    for call in (spread, spread.function):
        arrays = (
            np.zeros((2, 2, 3), dtype), np.zeros(3, np.uint16), np.zeros((2, 3), np.uint32),
            np.zeros((1, 2, 3), np.float32),
        )  # fmt: skip
        answers.append([call(levels, *arrays), *(array.tobytes() for array in arrays)])
    assert answers[0] == answers[1]
    assert answers[0][0] == levels.sum()


def test_the_arguments_choose_among_what_a_kernel_is_made_for():
    single, double, byte, short = (np.dtype(kind) for kind in ("f4", "f8", "u1", "u2"))
    assert weighted.variants() == [(single,), (double,)]
    assert kernels_atoms._add_rows.variants() == [(single, single), (single, double), (double, double)]
    assert spread.variants() == [(byte,), (short,)]
    with pytest.raises(TypeError, match="spread works in uint8 or uint16, got float32"):
        spread(np.zeros((1, 1), np.float32), *[None] * 4)


def test_a_later_process_finds_it_on_disk(tmp_path, monkeypatch):
    arguments = np.ones((1, 2)), 1.0, False, np.zeros(1, np.int64), np.zeros(2)
    assert weighted(*arguments) == 2.0
    (file,) = tmp_path.iterdir()
    monkeypatch.setattr(weighted, "_native", {})
    monkeypatch.setattr(weighted, "_made", lambda *_: pytest.fail("it was there"))
    assert weighted(*arguments) == 2.0
    file.write_bytes(file.read_bytes()[:-1])  # the disk was full
    monkeypatch.setattr(weighted, "_native", {})
    monkeypatch.undo()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(weighted, "_native", {})
    assert weighted(*arguments) == 2.0
    assert kept.read(Path(), file.name) is not None  # whole again


def test_bitcode_made_ahead_is_taken_where_it_is_of_use(tmp_path, monkeypatch):
    double = (np.dtype(np.float64),)
    entry = f"{weighted.name_of(double)}-{machine.level()}"
    arguments = np.ones((1, 2)), 1.0, False, np.zeros(1, np.int64), np.zeros(2)
    monkeypatch.setattr(family, "ahead", tmp_path / "ahead")
    made = weighted.bitcode(double)
    asked = []
    monkeypatch.setattr(weighted, "bitcode", lambda key: asked.append(key) or made)
    for number, (content, by_numba) in enumerate([(made, []), ((made[0], b"of another compiler"), [double])]):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / str(number)))
        monkeypatch.setattr(weighted, "_native", {})
        ahead.write(family.ahead, {entry: content})
        assert ahead.names(family.ahead) == {entry}
        assert weighted(*arguments) == 2.0
        assert asked == by_numba


def test_a_changed_part_changes_the_name(tmp_path, monkeypatch):
    file = tmp_path / "part.py"
    before = weighted.name_of(())
    monkeypatch.setattr(Part, "sources", lambda part: iter([Path(__file__), file]))
    names = set()
    for content in ("one", "other"):
        file.write_text(content)
        weighted.__dict__.pop("_source", None)
        names.add(weighted.name_of(()))
    weighted.__dict__.pop("_source", None)
    monkeypatch.undo()
    assert len(names | {before}) == 3
    assert weighted.name_of(()) == before


def test_a_changed_constant_changes_the_name(monkeypatch):
    """It may be imported from a file that has no kernel in it."""
    names = set()
    for value in (3, 4, 4.0, np.float32(4)):
        monkeypatch.setitem(globals(), "SCALE", value)
        spread.__dict__.pop("_source", None)
        names.add(spread.name_of(()))
    spread.__dict__.pop("_source", None)
    assert len(names) == 4
    assert {"DARKEST float 0.0009765625", "fastmath False"} <= set(kernels_tone.tone_tile.settings())
    assert "fastmath True" in set(kernels_npea._bright_means.settings())


def test_a_program_without_sources_has_names_for_its_kernels(tmp_path, monkeypatch):
    monkeypatch.setattr(Part, "sources", lambda part: iter([tmp_path / "not there"]))
    names = set()
    for kernel in family.kernels:
        kernel.__dict__.pop("_source", None)
        names.add(kernel.name_of(()).split("-", 1)[1])
        kernel.__dict__.pop("_source", None)
    assert len(names) == len(family.kernels)


def test_parts_belong_to_what_a_kernel_is_made_of():
    assert list(weighted.parts) == ["_shifted"]
    assert {path.name for path in kernels_atoms.misfits.sources()} == {"kernels_atoms.py", "kernels_code.py"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({1: np.ones((2, 4))[:, ::2]}, "strides"),
        ({3: np.zeros(1, np.int32)}, "int64"),
        ({1: np.ones((1, 2, 1))}, "2 dimensions"),
        ({4: np.zeros(2, np.float32)}, "sums as a C-contiguous array of float64"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_a_sentence(change, word):
    arguments = [np.ones((1, 2)), 1.0, False, np.zeros(1, np.int64), np.zeros(2)]
    for place, array in change.items():
        arguments[place - 1 if place == 1 else place] = array
    with pytest.raises(TypeError, match=f"kernel weighted takes .*{word}"):
        weighted(*arguments)


def test_other_precisions_and_words_are_refused():
    with pytest.raises(TypeError, match="float32 or float64"):
        weighted(np.ones((1, 2), np.float16), 1.0, False, np.zeros(1, np.int64), np.zeros(2))
    with pytest.raises(TypeError, match="'Real'; known are Number"):
        type_of("Real")


def test_an_answer_that_is_not_the_annotated_one_is_refused():
    @family.kernel
    def wrong(data: Vector) -> Integer:
        return data[0]

    family.kernels.remove(wrong)
    with pytest.raises(TypeError, match="returns float64, annotated is int64"):
        wrong(np.ones(1))


def test_what_is_not_there_without_numba_is_not_loaded():
    @family.kernel
    def allocates(data: Doubles) -> Double:
        return np.zeros(data.size).sum() + data[0]

    family.kernels.remove(allocates)
    with pytest.raises(RuntimeError, match=r"calls NRT_.*not there without numba"):
        allocates(np.ones(1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_of_dictionary_learning_do_what_their_python_does(dtype):
    rng = np.random.default_rng(1)

    def matrix(*shape):
        return rng.normal(size=shape).astype(dtype)

    def both(kernel, *arguments):
        """Answers and arguments, after the kernel and after its Python."""
        found = []
        for call in (kernel, kernel.function):
            own = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
            found.append((call(*own), own))
        for one, other in zip(*([answer, *own] for answer, own in found), strict=True):
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=2e-4 if dtype == np.float32 else 1e-10, atol=1e-5)

    indptr, indices = np.array([0, 2, 2, 5], np.int32), np.array([0, 3, 1, 2, 3], np.int32)
    codes, D, Y = matrix(5), matrix(4, 6), matrix(3, 6)
    both(kernels_atoms.misfits, indptr, indices, codes, Y, D, matrix(3, 6), np.zeros(3))
    for total in {dtype, np.float64}:
        A, B = matrix(4, 4).astype(total), matrix(4, 6).astype(total)
        both(kernels_atoms._add_rows, indptr, indices, codes, Y, 0.7, True, A, B, 1, 4)
    folded = np.triu(rng.normal(size=(4, 4)))
    both(kernels_atoms.unfold, folded, matrix(4, 4), 0, 4)
    both(kernels_atoms.inner_product, folded, matrix(4, 4), True, 1, 3)
    A = D @ D.T
    both(
        kernels_error.prox_points, D, D, A @ D, matrix(4, 6), dtype(0.5), dtype(0.1), False, matrix(4, 6), matrix(4, 6)
    )
    five = [matrix(4, 6) for _ in range(5)]
    both(kernels_error.error_products, *five, 0.5, 0.1, np.zeros(3))
    both(kernels_audit.products_at, Y, D, np.array([0, 2]), np.array([1, 3]), matrix(2))


ONE_KERNEL = """
import sys
import numpy as np
from tecu.dictionary.kernels_atoms import inner_product
for dtype in (np.float32, np.float64):
    print(inner_product(np.full((2, 3), 0.1), np.full((2, 3), 1 / 3, dtype), False, 0, 2).hex())
print("numba" in sys.modules)
"""


def test_a_kernel_on_disk_is_no_news_and_needs_no_numba(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, later = (
        subprocess.run([sys.executable, "-c", ONE_KERNEL], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert [first.stderr.count(f"dictionary learning for {name}") for name in ("float32", "float64")] == [1, 1]
    assert "compiling" not in later.stderr
    assert later.stdout.splitlines()[-1] == "False"
    assert first.stdout.splitlines()[:-1] == later.stdout.splitlines()[:-1]  # the same bits


def test_compiling_is_announced_once_a_precision(caplog):
    news = Family("nothing", Path("nowhere"))
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    for precisions in ((single,), (single, double), (), (double,), (double, double)):
        news.announce(precisions)
    other = Family("another", Path("nowhere"))
    for precisions in ((), (single,), (), (single,)):
        other.announce(precisions)  # the first is no reason to tell a second time
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "compiling the kernels of nothing for float32",
        "compiling the kernels of nothing for float64",
        "compiling the kernels of another",
    ]


def test_how_long_it_takes_is_told_too(caplog):
    for is_ahead, takes in ((True, "some seconds"), (False, "half a minute")):
        Family("nothing", Path("nowhere")).announce((np.dtype(np.float32),), is_ahead)
        assert caplog.records[-1].getMessage().endswith(takes)


@pytest.mark.parametrize("family", [dictionary, photos, classical], ids=lambda family: family.what)
def test_all_kernels_of_a_task_can_be_made_ahead(family):
    names = [kernel.name_of(key) for kernel in family.kernels for key in kernel.variants()]
    assert len(names) == len(set(names))
    assert len({kernel.function.__name__ for kernel in family.kernels}) == len(family.kernels)


def test_the_kernels_of_photos_are_these():
    """A kernel of another module would not be found by ``tools/bitcode.py``."""
    own = {kernels_bytes.pad_rows, kernels_bytes.cell_means, kernels_tone.tone_tile, kernels_denoise.smooth_tile}
    assert {*photos.kernels} == own
    assert {*classical.kernels} == {kernels_npea._bright_means, kernels_hdrnet._slice_rows}


WITHOUT_NUMBA = """
import sys
from pathlib import Path
from tecu.kernels import ahead, machine
count, missing = 0, []
for file in map(Path, sys.argv[1:]):
    for name in ahead.names(file):
        count += 1
        found = machine.called(ahead.read(file, name)[1])
        missing += [f"{name} calls {one}" for one in found if not machine.is_there(one)]
print(count, "numba" in sys.modules, *missing, sep=chr(10))
"""


def test_all_that_shipped_bitcode_calls_is_there_without_numba():
    """While numba is there, as where bitcode is made, so are functions that a later process looks for in vain."""
    files = [str(family.ahead) for family in (dictionary, photos, classical) if family.ahead.exists()]
    run = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA, *files], capture_output=True, text=True, check=True)
    count, numba, *missing = run.stdout.split("\n")
    assert int(count) >= 40 or not files
    assert numba == "False"
    assert [line for line in missing if line] == []
