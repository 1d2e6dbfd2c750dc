"""Files from a stranger: whatever is in them, a loader gives its object or one ``ValueError`` with a sentence.

Bounded to seconds; ``make fuzz`` makes a hundred times as many examples (``TECU_FUZZ=100``). The loader of photos has
its own in ``lowlight/test_files_broken.py``.
"""

import contextlib
import copy
import io
import json
import os
import warnings
import zipfile
from itertools import islice

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import tecu
from tecu import couplings, strategies, terms
from tecu.certificate import violations
from tecu.checkpoint import FORMAT
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.history import History
from tecu.lowlight.network import DEFAULT_MODEL, Network

pytestmark = pytest.mark.fuzz
FUZZ = int(os.environ.get("TECU_FUZZ", "1"))
OPTIONS = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": FUZZ == 1}

EDITS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6)), max_size=5)
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5),
    st.sampled_from([[], {}, [1], {"a": 1}, "../../x", 1e308, -1, 10**12]),
)  # fmt: skip


def edited(whole, edits, cut):
    file = bytearray(whole)
    for where, piece in edits:
        at = int(where * len(file))
        file[at : at + len(piece)] = piece
    return bytes(file[: int(cut * len(file))])


def parts_of(whole):
    """The document and the arrays of a file."""
    with np.load(io.BytesIO(whole)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(bytes(arrays.pop("document"))), arrays


def file_of(document, arrays):
    out = io.BytesIO()
    text = np.frombuffer(json.dumps(document).encode(), np.uint8)
    np.savez(out, **arrays, document=text)
    return out.getvalue()


def paths(tree, at=()):
    """Where there is something in a tree of dicts and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from islice(paths(value, (*at, key)), 40)


def with_change(tree, path, value, remove):
    tree = copy.deepcopy(tree)
    place = tree
    for key in path[:-1]:
        place = place[key]
    if remove:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return tree


WAYS = {
    "shorter": lambda x: x[:-1],
    "half precision": lambda x: x.astype(np.float16),
    "text": lambda x: x.astype(str),
    "minus one": lambda x: np.full_like(x, -1),
    "largest": lambda x: np.full_like(x, np.iinfo(x.dtype).max),
    "nan": lambda x: np.full_like(x, np.nan),
    "none": lambda x: np.zeros(0, x.dtype),
    "scalar": lambda x: np.zeros((), x.dtype),
    "by columns": np.asfortranarray,
    "one more axis": lambda x: x[None],
    "flat": np.ravel,
    "whole": lambda x: x.astype(np.int64),
    "fractions": lambda x: x.astype(np.float64) + 0.5,
}


def changes(document, names):
    """What to do to a file of the right make so that it is not what was written."""
    places = st.tuples(st.sampled_from(list(paths(document))), JUNK, st.booleans())
    return st.tuples(
        st.lists(places, max_size=2),
        st.dictionaries(st.sampled_from(sorted(names)), st.sampled_from(sorted(WAYS)), max_size=2),
    )


def forged(parts, change):
    document, arrays = parts[0], dict(parts[1])
    for path, junk, remove in change[0]:
        with contextlib.suppress(KeyError, IndexError, TypeError):  # an earlier change took it away
            document = with_change(document, path, junk, remove)
    for name, way in change[1].items():
        with contextlib.suppress(ValueError, IndexError, TypeError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays[name] = WAYS[way](arrays[name])
    return file_of(document, arrays)


def loaded(load, path, content):
    """What ``load`` makes of a file, or none if it is refused in a sentence."""
    path.write_bytes(content)
    return in_a_sentence(lambda: load(path), path.name)


def in_a_sentence(call, name):
    """What ``call`` gives, or none if it says in one line what is wrong with the file."""
    try:
        return call()
    except ValueError as error:
        sentence = str(error)
    assert len(sentence.splitlines()) == 1
    assert name in sentence
    return None


# ---- models of dictionaries ----

X = make_sparse_data(40, 6, 8, 2, random_state=0)[0]


def model_file():
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        L0DictionaryLearning(8, penalty=0.05, max_iter=2, random_state=0).fit(X).save(path)
        return path.read_bytes()


MODEL = model_file()


def use_model(model):
    if model is None:
        return
    try:
        codes = model.transform(X)
    except ValueError:
        return
    assert codes.shape == (len(X), len(model.components_))


@settings(max_examples=150 * FUZZ, **OPTIONS)
@given(edits=EDITS, cut=st.floats(0.5, 1.2))
def test_damaged_models(tmp_path_factory, edits, cut):
    path = tmp_path_factory.getbasetemp() / "damaged-model.npz"
    use_model(loaded(L0DictionaryLearning.load, path, edited(MODEL, edits, cut)))


@settings(max_examples=150 * FUZZ, **OPTIONS)
@given(change=changes(*parts_of(MODEL)))
def test_forged_models(tmp_path_factory, change):
    path = tmp_path_factory.getbasetemp() / "forged-model.npz"
    model = loaded(L0DictionaryLearning.load, path, forged(parts_of(MODEL), change))
    assert model is None or model.checkpoint is None
    use_model(model)


# ---- saved states ----


def state_file():
    import tempfile
    from pathlib import Path

    problem = tecu.Problem(
        couplings.MatrixFactorization(X.T, codes="W", dictionary="D"), {"W": terms.L0(0.05), "D": terms.UnitColumns()}
    )
    solver = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM(), eta=1.0, c=0.25)})
    start = problem.project({"W": csr_array(np.zeros((40, 8))), "D": X[:8].T.copy()})
    state = list(islice(solver.iterate(start), 3))[-1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        tecu.save_state(path, state)
        return solver, path.read_bytes()


SOLVER, STATE = state_file()


def use_state(state):
    """What ``tecu compare`` makes of a state, and going on from it."""
    if state is None:
        return
    assert len(History.of(state)["value"]) == state.t + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forged numbers overflow
        violations(state.start_value, state.visits)
        with contextlib.suppress(Exception):  # what strategies keep is theirs; but no crash, and it ends
            next(SOLVER.iterate(state), None)


@settings(max_examples=150 * FUZZ, **OPTIONS)
@given(edits=EDITS, cut=st.floats(0.5, 1.2))
def test_damaged_states(tmp_path_factory, edits, cut):
    path = tmp_path_factory.getbasetemp() / "damaged-state.npz"
    use_state(loaded(tecu.load_state, path, edited(STATE, edits, cut)))


@settings(max_examples=250 * FUZZ, **OPTIONS)
@given(change=changes(*parts_of(STATE)))
def test_forged_states(tmp_path_factory, change):
    path = tmp_path_factory.getbasetemp() / "forged-state.npz"
    use_state(loaded(tecu.load_state, path, forged(parts_of(STATE), change)))


# ---- networks ----

ONNX = DEFAULT_MODEL.read_bytes()
PICTURE = np.full((12, 16, 3), 0.1, np.float32)


@settings(max_examples=40 * FUZZ, **OPTIONS)
@given(edits=EDITS, cut=st.sampled_from([0.3, 0.9, 1.0, 1.0, 1.0]))
def test_damaged_networks(tmp_path_factory, edits, cut):
    path = tmp_path_factory.getbasetemp() / "damaged.onnx"
    network = loaded(Network, path, edited(ONNX, edits, cut))
    if network is not None:
        assert isinstance(network.card, dict)
        proposal = in_a_sentence(lambda: network(PICTURE), path.name)
        assert proposal is None or proposal.illumination.shape == (12, 16)


@settings(max_examples=200 * FUZZ, **OPTIONS)
@given(content=st.binary(max_size=300), start=st.sampled_from([b"", b"\x3a", b"\x3a\x10\x0a\x0e", ONNX[:40]]))
def test_files_that_are_no_networks(tmp_path_factory, content, start):
    path = tmp_path_factory.getbasetemp() / "random.onnx"
    loaded(Network, path, start + content)


# ---- known tricks ----


def header(shape, descr="'<f8'"):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (header("(10**9,)"), "not an array"),
        (header("(1000000000000,)") + bytes(80), "not as long as it says"),
        (header("(-1, -8)") + bytes(64), "not as long as it says|not an array"),
        (header("(3,)", "'|O'") + bytes(24), "pickle"),
        (header("(3,)", "[('a', '|O')]") + bytes(24), "pickle"),
        (header("(3,)", "'<U0'"), "not as long as it says|not an array"),
        (header("(1,)", "'<f8'") + bytes(9), "not as long as it says"),
        (b"", "not an array"),
        (b"\x93NUMPY\x09\x00", "not an array"),
    ],
)
@pytest.mark.parametrize("load", [tecu.load_state, L0DictionaryLearning.load], ids=["state", "model"])
def test_arrays_are_checked_before_memory_is_taken(tmp_path, load, entry, words):
    import tracemalloc

    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("document.npy", entry)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=words):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("load", [tecu.load_state, L0DictionaryLearning.load], ids=["state", "model"])
def test_packed_archives_are_refused(tmp_path, load):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("document.npy", header("(100000000,)") + bytes(800_000_000 // 100))
    with pytest.raises(ValueError, match="packed, or claims to hold more"):
        load(path)


def test_a_model_cannot_choose_where_to_write(tmp_path):
    document, arrays = parts_of(MODEL)
    for change in (("settings", "checkpoint"), ("settings", "callback"), ("numbers", "transform")):
        other = copy.deepcopy(document)
        other[change[0]][change[1]] = "x"
        (tmp_path / "m.npz").write_bytes(file_of(other, arrays))
        with pytest.raises(ValueError, match=f"it sets {change[1]}"):
            L0DictionaryLearning.load(tmp_path / "m.npz")


def test_files_of_another_kind_or_age_are_named(tmp_path):
    (tmp_path / "m.npz").write_bytes(MODEL)
    (tmp_path / "s.npz").write_bytes(STATE)
    with pytest.raises(ValueError, match=rf"s\.npz is not a saved dictionary: it has the format '{FORMAT}'"):
        L0DictionaryLearning.load(tmp_path / "s.npz")
    with pytest.raises(ValueError, match=r"m\.npz is not a saved state: it has the format 'tecu-dictionary-1'"):
        tecu.load_state(tmp_path / "m.npz")
    document, arrays = parts_of(STATE)
    (tmp_path / "old.npz").write_bytes(file_of(document | {"format": "tecu-state-0"}, arrays))
    with pytest.raises(ValueError, match=f"'tecu-state-0', this version reads '{FORMAT}'"):
        tecu.load_state(tmp_path / "old.npz")


def test_an_index_beyond_its_row_is_refused(tmp_path):
    """Compiled code would follow it."""
    document, arrays = parts_of(MODEL)
    arrays["codes_indices"] = np.full_like(arrays["codes_indices"], 2**31 - 1)
    (tmp_path / "m.npz").write_bytes(file_of(document, arrays))
    with pytest.raises(ValueError, match="not a whole saved dictionary"):
        L0DictionaryLearning.load(tmp_path / "m.npz")
