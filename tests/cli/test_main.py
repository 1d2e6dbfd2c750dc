"""The group of commands: lazy, listed only if there, exit codes as promised."""

import io
import json
import subprocess
import sys

import click
import pytest
from PIL import Image

from tecu.cli import main as module
from tecu.cli.main import COMMANDS, LazyGroup, main, tecu


def test_help_lists_what_is_there(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    present = LazyGroup("x").list_commands(click.Context(tecu))
    assert {"enhance", "score"} <= set(present)
    for name, summary in COMMANDS.items():
        assert (f"  {name} " in text) == (name in present)
        assert name not in present or summary.split(",")[0] in text


def test_every_command_that_is_there_loads(capsys):
    for name in LazyGroup("x").list_commands(click.Context(tecu)):
        assert main([name, "--help"]) == 0
    assert "Usage: tecu enhance" in capsys.readouterr().out


def test_version(capsys):
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tecu {version('tecu')}\n"


def test_the_package_is_the_command_line():
    """``python -m tecu`` answers as ``tecu`` does, exit codes too."""
    for arguments, code in ((["--version"], 0), (["nonsense"], 1)):
        ways = [["-m", "tecu"], ["-c", "import sys; from tecu.cli.main import main; sys.exit(main())"]]
        runs = [subprocess.run([sys.executable, *way, *arguments], capture_output=True) for way in ways]
        assert [run.returncode for run in runs] == [code, code]
        assert (runs[0].stdout, runs[0].stderr) == (runs[1].stdout, runs[1].stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["enhance"],
        ["enhance", "a.jpg", "--jobs", "0"],
        ["enhance", "a", "--strength", "x"],
        ["score"],
        ["score", "--nonsense", "a.jpg"],
        ["enhance", "a.jpg", "--overwrite", "--skip-existing"],
    ],
    ids=" ".join,
)
def test_bad_arguments_give_1(arguments, capsys):
    assert main(arguments) == 1
    assert "Error:" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--checkpoint", "state.pt"], ["--tone-pairs", "32"], ["--tone-epochs", "1"]])
def test_options_that_the_network_does_not_know_are_refused(tmp_path, capsys, option):
    arguments = ["train", str(tmp_path), "-o", str(tmp_path / "new.onnx"), "--network", "hdrnet", *option]
    assert main(arguments) == 1
    assert f"{option[0]}: --network hdrnet does not know it" in capsys.readouterr().err


def test_an_interrupt_gives_130(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.tecu, "invoke", interrupted)
    assert main(["score", "a.jpg"]) == 130
    assert capsys.readouterr().err.endswith("Interrupted.\n")


def test_a_command_that_is_no_command_is_a_mistake_of_ours(monkeypatch):
    monkeypatch.setitem(COMMANDS, "main", "not a command")
    monkeypatch.setattr(module, "main", 5)
    with pytest.raises(TypeError, match="is not a command"):
        tecu.get_command(click.Context(tecu), "main")


def test_help_does_not_import_the_commands():
    code = (
        "import json, sys; from tecu.cli.main import main; main(['--help']); "
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stderr))
    heavy = {"torch", "numba", "onnxruntime", "sklearn", "PIL", "rich", "matplotlib", "dask"}
    assert not loaded & heavy
    assert not {"tecu.cli.enhance", "tecu.cli.score", "tecu.lowlight"} & loaded


def test_score_and_enhance_import_nothing_heavy_to_show_their_help():
    code = (
        "import json, sys; from tecu.cli.main import main; main(['enhance', '--help']); main(['score', '--help']); "
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(json.loads(run.stderr)) & {"torch", "numba", "onnxruntime", "sklearn", "rich", "matplotlib", "dask"}


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("--version >&-", 0, ""),
        ("enhance dark.png -o out.png >&-", 0, "1 done in"),
        ("enhance dark.png -o - >&-", 5, "failed: standard output is closed"),
        ("enhance - -o out.png <&-", 2, "failed: standard input is closed"),
    ],
)
def test_a_stream_that_is_closed_costs_only_what_needs_it(tmp_path, arguments, code, told):
    Image.new("RGB", (32, 24), (20, 10, 5)).save(tmp_path / "dark.png")
    run = subprocess.run(
        ["sh", "-c", f'"$0" -m tecu {arguments}', sys.executable], stderr=subprocess.PIPE, cwd=tmp_path, text=True
    )
    assert (run.returncode, told in run.stderr, "Traceback" in run.stderr) == (code, True, False), run.stderr
    assert (tmp_path / "out.png").exists() == (code == 0 and "out.png" in arguments)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("enhance dark.png -o out.png 2>&-", 0),
        ("enhance dark.png -o out.png <&- >&- 2>&-", 0),
        ("enhance dark.png -o - >&- 2>&-", 5),
        ("enhance dark.png -o - 2>&-", 0),
        ("enhance - -o out.png <&- 2>&-", 2),
        ("enhance nothing.png -o out.png 2>&-", 2),
        ("nonsense 2>&-", 1),
    ],
)
def test_a_standard_error_that_is_closed_changes_nothing_but_what_is_heard(tmp_path, arguments, code):
    Image.new("RGB", (32, 24), (20, 10, 5)).save(tmp_path / "dark.png")
    run = subprocess.run(
        ["sh", "-c", f'"$0" -m tecu {arguments}', sys.executable], stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert run.returncode == code
    if code == 0:
        with Image.open(
            io.BytesIO((tmp_path / "out.png").read_bytes() if "out.png" in arguments else run.stdout)
        ) as seen:
            assert seen.size == (32, 24)


def test_no_file_gets_the_number_of_a_stream_that_is_closed(tmp_path):
    """A library that writes to standard error, or a child process, would write into it."""
    code = (
        "import os, pathlib; from tecu.cli.main import main; main(['--version']);"
        "pathlib.Path('number').write_text(str(os.open('file', os.O_CREAT | os.O_WRONLY)));"
        "os.system('echo said >&2; echo said')"
    )
    subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code], cwd=tmp_path, check=True)
    assert int((tmp_path / "number").read_text()) > 2
    assert (tmp_path / "file").read_bytes() == b""


def test_a_reader_that_has_gone_is_no_traceback():
    """``tecu ... | true``: the pipe is closed before anything is written."""
    code = "import sys, time; from tecu.cli.main import main; time.sleep(0.5); sys.exit(main(['--help']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    with process.stderr:
        complaints = process.stderr.read()
    assert process.wait() == 5
    assert b"Traceback" not in complaints
