"""The model file: what it holds, what is refused; training and export."""

import csv
import errno
import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from lowlight.scenes import dark_scene, photo, scene
from tecu.lowlight import Enhancer
from tecu.lowlight.features import SUMMARY_SIZE, summary
from tecu.lowlight.network import DEFAULT_MODEL, Network

PICTURE = dark_scene().astype(np.float32) / 255


def test_default_model_is_small_and_says_what_it_was_trained_on():
    assert DEFAULT_MODEL.stat().st_size <= 300_000
    card = Network().card
    assert card["licence"] == "MIT"
    assert card["figures on held-back photos"]
    assert len(card["photos"]) >= 40
    assert all(licence != "not stated" and author != "not stated" for _, licence, author, _ in card["photos"])


def test_proposal_is_an_illumination_and_a_monotone_curve():
    proposal = Network()(PICTURE)
    brightest = PICTURE.max(axis=-1)
    assert np.all((proposal.illumination >= brightest - 1e-6) & (proposal.illumination <= 1.0))
    assert 0.0 < proposal.exponent < 1.0
    assert proposal.knots[0] == 0.0
    assert abs(proposal.knots[-1] - 1.0) < 1e-5
    assert np.all(np.diff(proposal.knots) >= 0)


def test_summary_has_its_size():
    assert summary(PICTURE).shape == (SUMMARY_SIZE,)


@pytest.fixture
def folder(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for place, pixels in enumerate([photo(), photo("flower.jpg"), (scene(100, 120) * 255).astype(np.uint8)]):
        Image.fromarray(pixels).save(photos / f"{place}.png")
    with (photos / "licences.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([["file", "licence", "author"], ["0.png", "CC0-1.0", "somebody"]])
    return photos


QUICK = ["--steps", "3", "--tone-pairs", "32", "--tone-epochs", "1", "--threads", "1"]


def test_training_writes_a_model_that_enhances(folder, tmp_path):
    pytest.importorskip("torch")
    from tecu.cli.train import train

    target = tmp_path / "model.onnx"
    done = CliRunner().invoke(train, [str(folder), "-o", str(target), *QUICK], standalone_mode=False)
    assert done.return_value == 0, done.output
    card = Network(target).card
    assert [entry[1] for entry in card["photos"]] == ["CC0-1.0", "not stated", "not stated"]
    assert card["settings"]["steps"] == 3
    assert Enhancer(model=target)(dark_scene()).shape == dark_scene().shape


def test_export_computes_what_torch_computes(folder, tmp_path):
    torch = pytest.importorskip("torch")
    from tecu.lowlight.training import Settings, load_photos, train
    from tecu.lowlight.training.export import export
    from tecu.lowlight.training.loop import thumbnail
    from tecu.lowlight.training.networks import whole_illumination

    trained = train(load_photos(folder), Settings(steps=4, tone_pairs=32, tone_epochs=2))
    export(trained, {}, tmp_path / "model.onnx")
    found = Network(tmp_path / "model.onnx")(PICTURE)
    picture = torch.from_numpy(PICTURE.transpose(2, 0, 1).copy())[None]
    whole = torch.from_numpy(summary(PICTURE))[None]
    with torch.no_grad():
        light = whole_illumination(trained.illumination, picture, whole)
        exponent, knots = trained.tone(thumbnail(picture), thumbnail(light), whole)
    assert np.abs(found.illumination - light[0, 0].numpy()).max() < 1e-4
    assert abs(found.exponent - float(exponent)) < 1e-4
    assert np.abs(found.knots - knots[0].numpy()).max() < 1e-4


def test_interrupted_training_takes_the_same_steps(folder, tmp_path):
    torch = pytest.importorskip("torch")
    from tecu.lowlight.training import Settings, load_photos, train

    settings = Settings(steps=4, tone_pairs=32, tone_epochs=2, validate_every=1)
    photos = load_photos(folder)
    straight = train(photos, settings)

    def stop_after(step):
        def report(progress):
            if progress.stage == "illumination" and progress.step == step:
                raise KeyboardInterrupt

        return report

    with pytest.raises(KeyboardInterrupt):
        train(photos, settings, checkpoint=tmp_path / "state.pt", report=stop_after(2))
    resumed = train(photos, settings, checkpoint=tmp_path / "state.pt")
    for one, other in ((straight.illumination, resumed.illumination), (straight.tone, resumed.tone)):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)
    with pytest.raises(ValueError, match="other photos or settings"):
        train(photos, Settings(steps=5, tone_pairs=32, tone_epochs=2), checkpoint=tmp_path / "state.pt")


@pytest.mark.parametrize("content", [b"", b"no photo", b"\x89PNG\r\n\x1a\n broken"])
def test_a_broken_photo_is_named_before_the_training(folder, tmp_path, capsys, content):
    pytest.importorskip("torch")
    from tecu.cli.main import main

    (folder / "bad.png").write_bytes(content)
    assert main(["train", str(folder), "-o", str(tmp_path / "model.onnx"), *QUICK]) == 1
    assert capsys.readouterr().err.count("bad.png") == 1
    assert not (tmp_path / "model.onnx").exists()


def test_training_sees_photos_as_enhance_does(folder):
    pytest.importorskip("torch")
    from tecu.lowlight.training import load_photos

    picture, turned = np.ascontiguousarray(photo()[:90, :120]), Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(picture).save(folder / "3.png", exif=turned)
    Image.fromarray(picture[..., 0].astype(np.uint16) * 257).save(folder / "4.png")
    Image.fromarray(picture[..., 0].astype(np.uint16) * 257).save(folder / "5.tif")
    loaded = {one.name: one.pixels for one in load_photos(folder)}
    np.testing.assert_array_equal(loaded["3.png"], np.rot90(picture, -1))
    for name in ("4.png", "5.tif"):
        np.testing.assert_array_equal(loaded[name], np.repeat(picture[..., :1], 3, axis=2))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_licences_are_read_with_and_without_a_mark_of_the_encoding(folder, encoding):
    pytest.importorskip("torch")
    from tecu.lowlight.training import load_photos

    (folder / "licences.csv").write_text("file,licence,author\n1.png,CC0-1.0,Müller\n", encoding=encoding)
    told = {one.name: (one.licence, one.author) for one in load_photos(folder)}
    assert told == dict.fromkeys(["0.png", "2.png"], ("not stated", "not stated")) | {"1.png": ("CC0-1.0", "Müller")}


@pytest.mark.parametrize("content", [b"file,author\n1.png,M\xfcller\n", b"file\n" + 200_000 * b"x"])
def test_licences_that_cannot_be_read_are_named_in_a_sentence(folder, tmp_path, capsys, content):
    pytest.importorskip("torch")
    from tecu.cli.main import main

    (folder / "licences.csv").write_bytes(content)
    assert main(["train", str(folder), "-o", str(tmp_path / "model.onnx"), *QUICK]) == 1
    assert "licences.csv' cannot be read" in capsys.readouterr().err


def test_licences_that_the_system_refuses_are_named_once_and_without_its_number(folder, monkeypatch):
    pytest.importorskip("torch")
    from tecu.lowlight.training import load_photos

    def closed(path, *args, **options):
        raise PermissionError(13, "Permission denied", str(path))

    (folder / "licences.csv").touch()
    monkeypatch.setattr("pathlib.Path.open", closed)
    with pytest.raises(ValueError, match=r"licences\.csv' cannot be read: Permission denied$"):
        load_photos(folder)


def test_training_leaves_out_what_enhance_leaves_out(folder):
    pytest.importorskip("torch")
    from tecu.lowlight.training import load_photos

    seen = [one.name for one in load_photos(folder)]
    (folder / "._0.png").write_bytes(b"what a Mac notes of 0.png")
    (folder / ".deleted").mkdir()
    (folder / ".deleted" / "9.jpg").write_bytes(b"half a file")
    (folder / "album.jpg").mkdir()
    Image.fromarray(photo()).save(folder / "album.jpg" / "inner.png")
    assert [one.name for one in load_photos(folder)] == [*seen, "inner.png"]


def test_a_checkpoint_that_cannot_be_written_is_told_in_a_sentence(folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    from tecu import atomic
    from tecu.cli.main import main

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "_publish", full)
    arguments = ["train", str(folder), "-o", str(tmp_path / "model.onnx"), *QUICK]
    assert main([*arguments, "--checkpoint", str(tmp_path / "state.npz")]) == 5
    assert "state.npz could not be written: the disk is full" in capsys.readouterr().err


def test_checkpoints_of_a_training_are_data_and_checked(folder, tmp_path):
    torch = pytest.importorskip("torch")
    from tecu.lowlight.training import Settings, load_photos, train

    settings, photos = Settings(steps=2, tone_pairs=32, tone_epochs=1, validate_every=1), load_photos(folder)
    path = tmp_path / "state.npz"
    torch.save({"fingerprint": None}, path)  # a pickle
    with pytest.raises(ValueError, match="is not an array"):
        train(photos, settings, checkpoint=path)
    path.unlink()
    train(photos, settings, checkpoint=path)
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = next(name for name in arrays if name.startswith("tone/"))
    np.savez(path, **(arrays | {name: arrays[name][:1]}))
    with pytest.raises(ValueError, match="is not whole"):
        train(photos, settings, checkpoint=path)


@pytest.mark.parametrize("shape", [(1, 1), (7, 300), (300, 1), (8, 8)])
def test_pairs_are_made_of_photos_of_any_size(shape):
    """An icon in the folder must not end the training in the middle."""
    from tecu.lowlight.training import pairs

    pixels = photo()[: shape[0], : shape[1]]
    for seed in range(10):
        seen = pairs.view(pixels, np.random.default_rng(seed))
        assert min(seen.shape[:2]) >= 72
        assert pixels.min() <= np.rint(255 * seen.min()) <= np.rint(255 * seen.max()) <= pixels.max()
        for made in (pairs.illumination_pair, pairs.tone_pair):
            assert all(np.isfinite(part).all() for part in made(pixels, np.random.default_rng(seed)))


def test_pairs_are_what_they_say():
    from tecu.lowlight.training import pairs

    for seed in range(12):
        dark, light, clean = pairs.illumination_pair(photo(), np.random.default_rng(seed))
        assert np.abs(dark - light[..., None] * clean).mean() < 0.02
        assert light.max() <= 1.0
        dark, target = pairs.tone_pair(photo(), np.random.default_rng(seed))
        assert 0.0 <= dark.min() <= dark.max() <= 1.0
        again, _ = pairs.tone_pair(photo(), np.random.default_rng(seed))
        assert np.array_equal(dark, again)
        if dark.shape == target.shape:
            assert np.array_equal(dark, target)  # well exposed: nothing to do


def changed(tmp_path, change):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(DEFAULT_MODEL)
    change(onnx, model)
    path = tmp_path / "changed.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def external(onnx, model):
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"


def custom(onnx, model):
    model.graph.node[0].domain = "com.example"


def other_names(onnx, model):
    model.graph.input[0].name = "image"
    for node in model.graph.node:
        node.input[:] = ["image" if name == "picture" else name for name in node.input]


@pytest.mark.parametrize(("change", "words"), [(external, "another file"), (custom, "custom operator"),
                                               (other_names, "takes 'picture' and 'summary'")])  # fmt: skip
def test_foreign_models_are_refused(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        Enhancer(model=changed(tmp_path, change))(dark_scene())


@pytest.mark.parametrize("change", [external, custom, other_names])
def test_a_foreign_model_is_a_bad_argument_before_the_first_photo(tmp_path, change, capsys):
    from tecu.cli.main import main

    Image.fromarray(dark_scene()).save(tmp_path / "a.png")
    arguments = ["enhance", str(tmp_path / "a.png"), "-o", str(tmp_path / "b.png")]
    assert main([*arguments, "--model", str(changed(tmp_path, change))]) == 1
    assert "changed.onnx' " in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"not a model at all", bytes(200), DEFAULT_MODEL.read_bytes()[:5000]])
def test_files_that_are_no_models_are_refused(tmp_path, content):
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="model"):
        Enhancer(model=path)(dark_scene())


def test_large_and_missing_files_are_refused(tmp_path):
    path = tmp_path / "large.onnx"
    with path.open("wb") as handle:
        handle.truncate(40 << 20)
    with pytest.raises(ValueError, match="at most 32 MB"):
        Enhancer(model=path)
    with pytest.raises(ValueError, match="no file"):
        Enhancer(model=tmp_path / "none.onnx")


def test_card_is_readable_without_the_onnx_package():
    assert json.loads(json.dumps(Network().card))["name"]
