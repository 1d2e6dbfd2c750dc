"""Every Python block and every ``tecu`` command in README and docs is run; if it takes long, its arguments are parsed.

Of ``make``, ``pip install``, ``python -m benchmarks`` and ``python FILE`` the names are checked, also within a line.
"""

import itertools
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from benchmarks.__main__ import benchmarks
from benchmarks.__main__ import main as run_benchmarks
from PIL import Image
from skimage import data

from tecu.cli import main as cli

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SLOW = {"train", "reproduce", "serve"}  # their own tests run them; here their arguments are parsed


def blocks(page, *languages):
    return [code for language, code in FENCE.findall(page.read_text(encoding="utf-8")) if language in languages]


def name(page):
    return str(page.relative_to(ROOT))


def commands(page):
    lines = "\n".join(blocks(page, "sh", "bash", "console", "shell")).replace("\\\n", " ").splitlines()
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if shlex.split(line, comments=True)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with what the pages' commands name."""
    monkeypatch.chdir(tmp_path)
    photo = data.astronaut()[40:200, 100:340]
    dark = np.rint(photo * 0.2).astype(np.uint8)
    (tmp_path / "photos" / "holiday").mkdir(parents=True)
    (tmp_path / "clean").mkdir()
    for path in ("photo.jpg", "dark.jpg", "photos/one.jpg", "photos/two.png", "photos/holiday/three.jpg"):
        Image.fromarray(dark).save(path)
    for path in ("reference.jpg", "clean/one.jpg"):
        Image.fromarray(photo).save(path)
    rng = np.random.default_rng(0)
    np.save("X.npy", rng.normal(size=(300, 16)))
    np.save("new.npy", rng.normal(size=(20, 16)))
    return tmp_path


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name)
def test_python_blocks_run_one_after_the_other(page, folder):
    scope = {"__name__": "__page__"}
    for k, code in enumerate(blocks(page, "python"), 1):
        exec(compile(code, f"{name(page)}, block {k}", "exec"), scope)


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=name)
def test_commands_run(page, folder, capsys):
    for command in commands(page):
        if command[0] == "tecu":
            run_tecu(command[1:], capsys)
        elif command[:2] not in (["git", "clone"], ["cd", "tecu"]):
            assert names_what_exists(command), f"{name(page)}: {shlex.join(command)}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_within_a_line_name_what_exists(page):
    for span in re.findall(r"`([^`\n]+)`", re.sub(FENCE, "", page.read_text(encoding="utf-8"))):
        words = [word for word in span.split() if not re.match(r"[A-Z_]+=", word)]  # such as TECU_DATA=FOLDER
        if words and words[0] in ("make", "pip", "python") and words[1:2] != ["-c"] and "NAME" not in span:
            assert names_what_exists(shlex.split(" ".join(words))), f"{name(page)}: {span}"


def names_what_exists(command):
    """Whether there are such targets, extras, benchmarks or files; none is run here, and examples have tests."""
    if command[0] == "make":
        return set(command[1:]) <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    if command[:2] == ["pip", "install"]:  # from a checkout: tecu is on no index
        extras = re.fullmatch(r"\.(?:\[([\w,]+)\])?", " ".join(command[2:]))
        return extras is not None and set((extras[1] or "all").split(",")) <= set(PROJECT["optional-dependencies"])
    if command[:2] == ["python", "-m"]:
        package, *named = command[2].split(".")
        named += itertools.takewhile(lambda word: not word.startswith("-"), command[3:])
        return package == "benchmarks" and set(named) <= set(benchmarks())
    return command[0] == "python" and (ROOT / command[1]).is_file()


@pytest.mark.parametrize(
    "command", ["make no", "pip install .[no]", "pip install tecu", "python -m benchmarks no", "python no.py"]
)
def test_what_does_not_exist_is_seen(command):
    assert not names_what_exists(command.split())


@pytest.mark.parametrize(("option", "code"), [("--help", 0), ("--quick", "engine takes no options, got --quick")])
def test_a_benchmark_without_options_is_not_run_for_one(monkeypatch, capsys, option, code):
    from benchmarks import engine

    monkeypatch.setattr(engine, "main", lambda: pytest.fail("it was run"))
    monkeypatch.setattr("sys.argv", ["benchmarks", "engine", option])
    with pytest.raises(SystemExit) as end:
        run_benchmarks()
    assert end.value.code == code
    assert "What the engine costs" in capsys.readouterr().out


def test_the_quick_start_lists_every_extra_for_users():
    listed = re.findall(r'^pip install "\.\[(\w+)\]"', (ROOT / "docs" / "quickstart.md").read_text(), re.MULTILINE)
    assert set(listed) == set(PROJECT["optional-dependencies"]) - {"test", "docs", "dev"}


def run_tecu(arguments, capsys):
    if arguments[0] in SLOW:
        command = cli.tecu.get_command(None, arguments[0])
        assert command is not None, f"there is no command {arguments[0]}"
        command.make_context(arguments[0], list(arguments[1:]))
        return
    code = cli.main(arguments)
    output = capsys.readouterr()
    assert code == 0, f"tecu {shlex.join(arguments)} gave {code}: {output.err}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"https?:|mailto:|#", target):
            path = page.parent / target.split("#")[0]
            assert path.exists(), f"{name(page)} links to {target}"


def test_every_command_is_described():
    described = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    for command in cli.LazyGroup("tecu").list_commands(None):
        assert f"`tecu {command} " in described, command


def test_the_demo_leaves_a_page_with_the_plots(folder, capsys):
    import runpy

    runpy.run_path(str(ROOT / "examples" / "demo.py"))["main"](str(folder / "out"))
    printed = capsys.readouterr().out
    assert "Certificate: holds" in printed
    assert str(folder / "out" / "index.html") in printed
    page = (folder / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("<img") >= 8
    assert len(list((folder / "out" / "plots").glob("*.svg"))) == 5
