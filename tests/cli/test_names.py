"""Names of files are shown in all that is printed, and command neither the terminal nor the eye."""

import json
import unicodedata

import numpy as np
import pytest
from PIL import Image
from skimage import data

from tecu.atomic import as_text, escaped, shown
from tecu.cli.main import main

DARK = (data.astronaut()[60:160, 150:250] // 5).astype(np.uint8)
FORGING = [
    "a\nfailed: b",
    "a\r1 done",
    "a\x1b[2K\x1b[1A",
    "a\x9b2K",
    "a\x7f\b",
    "a\N{LINE SEPARATOR}b",
    "a\N{PARAGRAPH SEPARATOR}b",
    "a\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    "a\N{FIRST STRONG ISOLATE}b",
    "a\N{RIGHT-TO-LEFT MARK}b",
]
# Each names the file NAME, which is not what it should be.
COMMANDS = {
    "enhance": ["enhance", "NAME", "-o", "out/"],
    "enhance existing": ["enhance", "good.png", "-o", "NAME.png"],
    "enhance model": ["enhance", "good.png", "--model", "NAME"],
    "enhance pattern": ["enhance", "NAME*"],
    "enhance output": ["enhance", "good.png", "-o", "NAME.gif"],
    "score": ["score", "NAME"],
    "score reference": ["score", "good.png", "--reference", "NAME"],
    "compare": ["compare", "NAME", "good.png", "-o", "page.html"],
    "compare runs": ["compare", "NAME.npz", "NAME.npz", "-o", "page.html"],
    "fit": ["dictionary", "fit", "NAME", "-o", "model.npz"],
    "transform": ["dictionary", "transform", "NAME", "X.npy", "-o", "codes.npz"],
    "reproduce": ["reproduce", "figure2", "--images", "NAME"],
    "an option": ["score", "--NAME"],
    "one too many": ["serve", "NAME"],
}


def commands_the_terminal(text):
    return any(unicodedata.category(sign) in ("Cc", "Zl", "Zp") or sign in BIDIRECTIONAL for sign in text)


BIDIRECTIONAL = {chr(n) for n in [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    Image.fromarray(DARK).save(tmp_path / "good.png")
    np.save(tmp_path / "X.npy", np.ones((5, 4)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


@pytest.mark.parametrize("name", FORGING)
def test_what_is_shown_of_a_name_stays_in_its_place(name):
    assert not commands_the_terminal(shown(name))
    assert shown(shown(name)) == shown(name)
    assert as_text(name) == name


def test_every_sign_that_commands_is_escaped_and_no_other():
    signs = [chr(n) for n in range(0x11000) if not 0xD800 <= n < 0xE000]
    assert [sign for sign in signs if escaped(sign) != sign] == [sign for sign in signs if commands_the_terminal(sign)]
    assert shown("Grüße \N{SMILING FACE WITH SUNGLASSES} 夜.jpg") == "Grüße \N{SMILING FACE WITH SUNGLASSES} 夜.jpg"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["x\nfailed: y\x1b[2K", "x\N{RIGHT-TO-LEFT OVERRIDE}gpj"], ids=["lines", "direction"])
def test_no_command_prints_a_name_as_it_is(folder, capsys, command, name):
    for file in (name, f"{name}.png", f"{name}.npz"):
        (folder / file).write_bytes(b"no photo, no array, no network")
    assert main([part.replace("NAME", name) for part in COMMANDS[command]]) != 0
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert "x\\" in printed  # it is told of
    assert not any(map(commands_the_terminal, printed.split("\n")))
    assert not any(line.startswith("failed: y") for line in printed.split("\n"))


def test_documents_keep_the_name_as_it_is(folder, capsys):
    name = "x\ny\N{RIGHT-TO-LEFT MARK}.png"
    Image.fromarray(DARK).save(folder / name)
    assert main(["enhance", name, "-o", "out/", "--json", "--report", "page.html"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["input"] == name
    assert name in (folder / "page.html").read_text(encoding="utf-8")
    assert main(["compare", name, "good.png", "-o", "compared.html"]) == 0
    assert name in (folder / "compared.html").read_text(encoding="utf-8")
