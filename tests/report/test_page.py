"""The page: one file, nothing from outside, the verdict in words, everything escaped."""

import html.parser
import re
import subprocess
import sys

import numpy as np
import pytest

import tecu
from tecu import couplings, report, stop, strategies, terms
from tecu.extras import how_to_get


class Outline(html.parser.HTMLParser):
    """What a page refers to, says and is made of."""

    VOID = frozenset({"meta", "img", "input", "br", "link"})

    def __init__(self, text):
        super().__init__()
        self.sources, self.tags, self.open, self.words = [], [], [], []
        self.images = []
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        self.sources += [given[name] for name in ("src", "href", "srcset", "action") if name in given]
        if tag == "img":
            self.images.append(given)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def solve(updates, iterations=15, block="D"):
    rng = np.random.default_rng(0)
    coupling = couplings.MatrixFactorization(rng.normal(size=(6, 30)), codes="W", dictionary=block)
    problem = tecu.Problem(coupling, {"W": terms.L0(0.05), block: terms.UnitColumns()})
    start = problem.project({"W": np.zeros((30, 8)), block: rng.normal(size=(6, 8))})
    return tecu.Solver(problem, {"W": tecu.ProxLinear(), block: updates}).run(start, stop=stop.MaxIter(iterations))


@pytest.fixture(scope="module")
def result():
    return solve(tecu.Embed(strategies.ADMM()))


def liar():
    return tecu.Embed(strategies.ADMM(), tolerance=tecu.FixedTolerance(1e-2))


def test_the_page_is_whole_and_calls_nothing_outside(result, tmp_path):
    path = result.report(tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    outline = Outline(text)
    assert outline.sources
    assert all(source.startswith("data:") for source in outline.sources)
    assert not {"link", "iframe", "object", "embed"} & set(outline.tags)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert "default-src 'none'" in text
    assert all(image["alt"] for image in outline.images)


@pytest.mark.parametrize("updates", [tecu.ProxLinear(), liar()], ids=["holds", "does-not-hold"])
def test_the_verdict_stands_there_in_words(updates, tmp_path):
    result = solve(updates)
    text = Outline(result.report(tmp_path / "run.html").read_text(encoding="utf-8")).text
    assert " ".join(result.certificate.reason.split()) in text
    assert result.status.value in text
    assert ("✓" in text) == result.certificate.holds
    assert ("✗" in text) != result.certificate.holds
    for assumption in result.certificate.assumptions:
        assert assumption in text


def test_visits_that_are_not_covered_are_listed(tmp_path):
    rng = np.random.default_rng(0)
    coupling = couplings.MatrixFactorization(rng.normal(size=(6, 30)))
    problem = tecu.Problem(coupling, {"W": terms.L1(0.05), "D": terms.UnitColumns()})
    start = problem.project({"W": rng.normal(size=(30, 8)), "D": rng.normal(size=(6, 8))})
    wild = tecu.Embed(strategies.ProxGradient(), max_inner=1, at_cap="keep_if_descends", eta=1e-3, c=1e-9)
    broken = tecu.Solver(problem, wild).run(start, stop=stop.MaxIter(30))
    assert len(broken.certificate.violations) > 20
    words = Outline(broken._repr_html_()).text
    assert broken.certificate.violations[0].fault in words
    assert f"and {len(broken.certificate.violations) - 20} more" in words


def test_names_are_escaped(tmp_path):
    result = solve(tecu.ProxLinear(), block="<script>alert(1)</script>")
    path = result.report(tmp_path / "run.html", title="<b>&")
    text = path.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert "<b>&" in Outline(text).text
    section = report.pictures(np.zeros((2, 2)), np.ones((2, 2)), names=('"><script>', "b"), caption="<i>")
    assert "<script>" not in section.body
    assert "<i>" not in section.body


def test_a_table_takes_numbers():
    body = report.table("Figures", ("what", "how much"), [("objective", 1.5), ("sweeps", 20)]).body
    assert body.count('<td class="number">1.5</td>') == 1
    assert body == report.table("Figures", ("what", "how much"), [("objective", "1.5"), ("sweeps", "20")]).body


def test_a_result_in_place_of_its_history_is_refused_in_a_sentence(result):
    with pytest.raises(TypeError, match="got Result; of a result these are result"):
        report.run(result)


def test_plots_as_files_on_request(result, tmp_path):
    result.report(tmp_path / "run.html", plots_folder=tmp_path / "plots")
    assert {path.suffix for path in (tmp_path / "plots").iterdir()} == {".svg", ".png"}


def test_a_page_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "run.html"
    target.write_text("old")
    monkeypatch.setattr("tecu.report.pages.os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        report.write_page(target, "new", [])
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_existing_page_stays_if_asked(tmp_path):
    target = report.write_page(tmp_path / "a.html", "one", [])
    with pytest.raises(FileExistsError, match="exists already"):
        report.write_page(target, "two", [], overwrite=False)


def test_reprs_are_plain_html(result):
    assert result.certificate.verdict.value in Outline(result._repr_html_()).text
    assert "Kurdyka" in Outline(result.certificate._repr_html_()).text


def test_reprs_import_nothing_heavy():
    code = (
        "import sys, numpy as np, tecu; from tecu import couplings, stop, terms; "
        "p = tecu.Problem(couplings.MatrixFactorization(np.eye(3)), {'W': terms.L1(.1), 'D': terms.UnitColumns()}); "
        "r = tecu.Solver(p, tecu.ProxLinear()).run({'W': np.ones((3, 2)), 'D': np.eye(3)[:, :2]}, stop.MaxIter(2)); "
        "r._repr_html_(); r.certificate._repr_html_(); "
        "sys.exit(bool({'matplotlib', 'jinja2', 'PIL'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named_in_one_sentence(missing):
    code = (
        f"import sys; sys.modules['{missing}'] = None; "
        "import numpy as np, tecu; from tecu import couplings, stop, terms; "
        "p = tecu.Problem(couplings.MatrixFactorization(np.eye(3)), {'W': terms.L1(.1), 'D': terms.UnitColumns()}); "
        "r = tecu.Solver(p, tecu.ProxLinear()).run({'W': np.ones((3, 2)), 'D': np.eye(3)[:, :2]}, stop.MaxIter(2)); "
        "r.report('never.html')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError:")
    assert last.endswith(how_to_get("report"))


def test_several_runs_on_one_page(result, tmp_path):
    other = solve(tecu.ProxLinear())
    section = report.compared_runs({"embedded": result.history, "palm": other.history}, {"palm": "it holds"})
    text = Outline(report.page("Runs", [section])).text
    for words in ("embedded", "palm", "it holds", "not known", f"{other.value:.6g}"):
        assert words in text
