"""Photos through the interface of the page: what comes out is what the command line makes."""

import asyncio
import io
import struct
import threading
import zipfile
import zlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from serve.open_pages import OpenPage, encoded
from tecu.cli.main import main
from tecu.lowlight import Enhancer, video
from tecu.lowlight.files import Photo, encode_photo, read_photo
from tecu.serve import Limits, app, pages
from tecu.serve.limits import Refused
from tecu.serve.pages import Page, Pages
from tecu.serve.photos import StoredPhoto
from tecu.serve.photos import jpeg as jpeg_of
from tecu.serve.preview import Look, Scene, layer, rendered, smaller


def pixels_of(answer):
    assert answer.status_code == 200, answer.text
    return np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGB")).astype(float)


# ---- the preview ----


@pytest.mark.parametrize("strength", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("headroom", [0.7, 0.97])
def test_settings_applied_anew_are_those_of_a_new_analysis(dark, strength, headroom):
    """The light found once, with other settings, is what an enhancer with these settings finds."""
    again = Scene.of(Photo(dark), "tecu").at(Look(strength=strength, headroom=headroom))
    anew = Enhancer(strength=strength, headroom=headroom).analyse(dark)
    assert np.array_equal(again.slope, anew.slope)
    assert np.array_equal(again.offset, anew.offset)
    assert again.noise == anew.noise
    assert again.tone.exponent == pytest.approx(anew.tone.exponent)
    assert again.tone.lift == anew.tone.lift
    assert np.allclose(again.tone.curve, anew.tone.curve)
    assert np.allclose(again.amplification, anew.amplification)


@pytest.mark.parametrize(
    "look", [Look(), Look(strength=0.4), Look(strength=1.3), Look(headroom=0.6), Look(denoise=False)], ids=str
)
def test_a_preview_is_the_result_seen_from_afar(dark, look):
    enlarged = np.asarray(Image.fromarray(dark).resize((1260, 900), Image.Resampling.BICUBIC))
    noise = np.random.default_rng(1).normal(0, 3, enlarged.shape)
    large = Photo(np.clip(enlarged + noise, 0, 255).astype(np.uint8))
    preview = rendered(smaller(large, 420), Scene.of(large, "tecu"), look)
    result = smaller(large.with_pixels(look.enhancer()(large.pixels)), 420).pixels
    assert np.abs(preview.astype(float) - result).mean() < 3


def test_strength_0_shows_the_original(page, jpeg):
    photo = page.send(jpeg)
    address = f"/photos/{photo['id']}/view"
    assert page.get(address, params={"strength": 0}).content == page.get(address, params={"what": "original"}).content


def test_more_strength_is_brighter(page, jpeg):
    photo = page.send(jpeg)
    means = [
        pixels_of(page.get(f"/photos/{photo['id']}/view", params={"strength": s})).mean() for s in (0, 0.5, 1, 1.5)
    ]
    assert means == sorted(means)
    assert means[-1] > 2 * means[0]


@pytest.mark.parametrize("headroom", [0.6, 0.97])
@pytest.mark.parametrize("what", ["illumination", "reflectance"])
def test_the_layers_are_those_that_the_command_line_writes_with_this_headroom(page, dark, what, headroom):
    bright = np.clip(dark * 4.0, 0, 255).astype(np.uint8)  # so that the headroom has a say
    photo = page.send(encoded(bright, "PNG"), "photo.png")
    expected = Photo(layer(getattr(Enhancer(headroom=headroom).decompose(bright), what)))
    box = {"x": 0, "y": 0, "width": bright.shape[1], "height": bright.shape[0]}
    for path, more in (("view", {}), ("tile", box)):
        shown = pixels_of(
            page.get(f"/photos/{photo['id']}/{path}", params={"what": what, "headroom": headroom, **more})
        )
        made = Image.open(io.BytesIO(jpeg_of(expected, quick=path == "view"))).convert("RGB")
        assert np.abs(shown - np.asarray(made)).mean() < 0.5


def test_the_layers_multiply_to_the_photo(page, dark):
    photo = page.send(encoded(dark, "PNG"), "photo.png")
    light, surface = (
        pixels_of(page.get(f"/photos/{photo['id']}/view", params={"what": what})) / 255
        for what in ("illumination", "reflectance")
    )
    assert np.abs(light * surface - dark / 255).mean() < 0.02


@pytest.mark.parametrize("method", ["paper", "pam", "he", "lime"])
def test_other_methods_are_shown_too(page, dark, method):
    photo = page.send(encoded(dark, "PNG"), "photo.png")
    shown = pixels_of(page.get(f"/photos/{photo['id']}/view", params={"what": method, "denoise": False}))
    made = jpeg_of(Photo(Enhancer(method, denoise=False)(dark)), quick=True)
    assert np.abs(shown - np.asarray(Image.open(io.BytesIO(made)))).mean() < 2


def test_a_tile_is_a_part_of_the_full_size_result(page, jpeg, dark):
    photo = page.send(jpeg)
    box = {"x": 100, "y": 50, "width": 160, "height": 90}
    tile = pixels_of(page.get(f"/photos/{photo['id']}/tile", params=box))
    result = Enhancer()(read_photo(jpeg).pixels)
    assert np.abs(tile - result[50:140, 100:260]).mean() < 2
    parts = Enhancer().decompose(read_photo(jpeg).pixels)
    for what in ("original", "illumination", "reflectance"):
        tile = pixels_of(page.get(f"/photos/{photo['id']}/tile", params={**box, "what": what})) / 255
        whole = read_photo(jpeg).pixels / 255 if what == "original" else np.clip(getattr(parts, what), 0, 1)
        whole = whole if whole.ndim == 3 else whole[..., None]
        assert np.abs(tile - whole[50:140, 100:260]).mean() < 0.02
    for what in ("original", "illumination", "reflectance", "tecu", "he"):
        for place in ({"x": 420}, {"y": 300}, {"x": 5000, "y": 5000}):
            outside = page.get(f"/photos/{photo['id']}/tile", params={**box, "what": what, **place})
            assert (outside.status_code, "this part is outside" in outside.text) == (422, True)


@pytest.mark.parametrize("what", ["illumination", "reflectance"])
def test_a_layer_shows_nothing_of_what_is_hidden(page, dark, what):
    """Neither small nor at full size: under full transparency programs leave what they like."""
    alpha = np.full(dark.shape[:2], 255, np.uint8)
    alpha[:, :200] = 0
    box = {"x": 0, "y": 0, "width": dark.shape[1], "height": dark.shape[0], "what": what}
    shown = []
    for hidden in (0, 255):
        pixels = dark.copy()
        pixels[:, :200] = hidden
        photo = page.send(encoded(np.dstack([pixels, alpha]), "PNG"), "photo.png")
        shown.append([pixels_of(page.get(f"/photos/{photo['id']}/{path}", params=box)) for path in ("view", "tile")])
    for first, second in zip(*shown, strict=True):
        assert np.array_equal(first, second)


@pytest.mark.parametrize("kind", ["grey", "grey 16", "rgba"])
def test_every_kind_of_photo_has_a_preview(page, dark, kind):
    grey = dark.mean(axis=2).astype(np.uint8)
    pixels = {"grey": grey, "grey 16": grey.astype(np.uint16) * 257, "rgba": np.dstack([dark, grey])}[kind]
    photo = page.send(encoded(pixels, "PNG"), "photo.png")
    assert photo["state"] == "ready", photo["reason"]
    for what in ("original", "tecu", "illumination", "reflectance", "he"):
        shown = pixels_of(page.get(f"/photos/{photo['id']}/view", params={"what": what}))
        assert shown.shape == dark.shape
    assert max(pixels_of(page.get(f"/photos/{photo['id']}/view", params={"small": True})).shape) == 240


def test_the_preview_keeps_the_colour_profile(page, jpeg):
    photo = page.send(jpeg)
    shown = Image.open(io.BytesIO(page.get(f"/photos/{photo['id']}/view").content))
    assert shown.info["icc_profile"] == Image.open(io.BytesIO(jpeg)).info["icc_profile"]


# ---- results ----


@pytest.mark.parametrize("name", ["holiday photo.jpg", "naïve ☀.jpg"])
def test_a_result_is_what_the_command_line_writes(page, jpeg, tmp_path, name):
    photo = page.send(jpeg, name)
    answer = page.get(f"/photos/{photo['id']}/result", params={"strength": 0.8, "denoise": False, "headroom": 0.8})
    (tmp_path / name).write_bytes(jpeg)
    assert main(["enhance", str(tmp_path / name), "--strength", "0.8", "--no-denoise", "--headroom", "0.8"]) == 0
    stem = name.removesuffix(".jpg")
    assert answer.content == (tmp_path / f"{stem}-enhanced.jpg").read_bytes()
    assert "attachment" in answer.headers["content-disposition"]
    before, after = (Image.open(io.BytesIO(content)) for content in (jpeg, answer.content))
    assert dict(after.getexif()) == dict(before.getexif())
    assert after.info["icc_profile"] == before.info["icc_profile"]


def test_the_headroom_reaches_the_result(page, jpeg):
    photo = page.send(jpeg)
    answer = page.get(f"/photos/{photo['id']}/result", params={"headroom": 0.6})
    original = read_photo(jpeg)
    assert answer.content == encode_photo(original.with_pixels(Enhancer(headroom=0.6)(original.pixels)), "JPEG")[0]


def test_an_archive_holds_every_result(page, jpeg, dark):
    first, second = page.send(jpeg, "a.jpg"), page.send(jpeg, "a.jpg")
    third, gone = page.send(encoded(dark, "PNG"), "b.png"), page.send(jpeg, "gone.jpg")
    wanted = [{"id": photo["id"], "strength": 0.5 + k / 4} for k, photo in enumerate((first, second, gone, third))]
    ticket = page.post("/archives", json=wanted).json()["ticket"]
    page.delete(f"/photos/{gone['id']}")
    answer = page.get(f"/archives/{ticket}")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        names = ["a-enhanced.jpg", "a-enhanced-2.jpg", "b-enhanced.png", "what-failed.txt"]
        assert archive.namelist() == names
        for name, photo, strength in zip(names, (first, second, third), (0.5, 0.75, 1.25), strict=False):
            single = page.get(f"/photos/{photo['id']}/result", params={"strength": strength})
            assert archive.read(name) == single.content
    assert page.get(f"/archives/{ticket}").status_code == 404
    assert not list(page.kept.folder.glob("zip-*"))
    assert not list(page.kept.folder.glob("out-*"))


def test_the_certificate_is_told_in_words(page, jpeg):
    photo = page.send(jpeg)
    told = page.get(f"/photos/{photo['id']}/run").json()
    assert told["holds"]
    assert "The convergence theorem covers" in told["words"]
    columns = told["columns"]
    assert len({len(column) for column in columns.values()}) == 1
    assert np.all(np.diff(columns["lyapunov"]) <= 1e-3)
    assert page.get(f"/photos/{photo['id']}/run", params={"method": "he"}).status_code == 422


# ---- what is refused ----


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "photo.jpg is empty"),
        (b"just text", "photo.jpg is not a photo of a kind that is read"),
        ("cut", "photo.jpg could not be decoded"),
        ("bomb", "photo.jpg has 30000 x 30000 = 900,000,000 pixels, the limit is 100,000,000"),
    ],
)
def test_a_broken_file_says_what_is_wrong_with_it(page, jpeg, content, sentence):
    if content == "cut":
        content = jpeg[: len(jpeg) // 2]
    elif content == "bomb":
        small = encoded(np.zeros((9, 9), np.uint8), "PNG")
        size = (
            struct.pack(">II", 30000, 30000) + small[24:29]
        )  # what the header says decides before anything is decoded
        content = small[:16] + size + struct.pack(">I", zlib.crc32(b"IHDR" + size)) + small[33:]
    photo = page.send(content)
    assert photo["state"] == "failed"
    assert photo["reason"].startswith(sentence)
    assert photo["reason"].endswith(".")
    assert "/" not in photo["reason"].replace("w/o", "")  # no path of the server
    assert page.get(f"/photos/{photo['id']}/view").status_code == 409


@pytest.mark.parametrize("content", [b"#EXTM3U\nfile:///etc/passwd", "photo"], ids=["playlist", "photo"])
@pytest.mark.parametrize("name", ["movie.mp4", "movie.MKV"])
def test_no_upload_reaches_ffmpeg(page, jpeg, monkeypatch, content, name):
    """Whatever its name and its state: ffmpeg opens the files that a playlist names."""
    called = []
    monkeypatch.setattr(video, "enhance_video", lambda *given: called.append(given) or ())
    photo = page.send(jpeg if content == "photo" else content, name)
    assert (photo["state"], photo["reason"].startswith(f"{name} has the name of a video")) == ("failed", True)
    answer = page.get(f"/photos/{photo['id']}/result")
    assert (answer.status_code, answer.json()["error"]) == (409, photo["reason"])
    ticket = page.post("/archives", json=[{"id": photo["id"]}]).json()["ticket"]
    with zipfile.ZipFile(io.BytesIO(page.get(f"/archives/{ticket}").content)) as archive:
        assert archive.namelist() == ["what-failed.txt"]
    assert not called


@pytest.mark.parametrize("state", ["queued", "failed"])
def test_only_what_was_read_is_written(page, jpeg, state):
    photo = page.send(jpeg)
    page.kept.photos[photo["id"]].state = state
    assert page.get(f"/photos/{photo['id']}/result").status_code == 409


def test_a_broken_file_does_not_cost_the_others(page, jpeg):
    states = [page.send(content)["state"] for content in (b"text", jpeg, b"", jpeg)]
    assert states == ["failed", "ready", "failed", "ready"]


def test_uploads_are_limited_in_size_and_number(serving, jpeg):
    length = len(jpeg)
    page = OpenPage(serving(Limits(file_bytes=length, photos=2, page_bytes=2 * length)))
    long = page.post("/photos", params={"name": "long.jpg"}, content=jpeg + b"x")
    assert (long.status_code, "long.jpg is longer than" in long.json()["error"]) == (413, True)
    unannounced = page.post("/photos", params={"name": "long.jpg"}, content=iter([jpeg, b"x"]))
    assert unannounced.status_code == 413
    first = page.send(jpeg)
    page.send(jpeg)
    third = page.post("/photos", params={"name": "c.jpg"}, content=jpeg)
    assert (third.status_code, "one too many" in third.json()["error"]) == (413, True)
    page.delete(f"/photos/{first['id']}")
    assert page.send(jpeg)["state"] == "ready"
    assert len(list(page.kept.folder.iterdir())) == 2


def test_a_page_holds_so_many_bytes(serving, jpeg):
    page = OpenPage(serving(Limits(page_bytes=len(jpeg) + 10)))
    page.send(jpeg)
    answer = page.post("/photos", params={"name": "b.jpg"}, content=jpeg)
    assert (answer.status_code, "does not fit" in answer.json()["error"]) == (413, True)


def test_a_name_leads_nowhere_else(page, jpeg):
    photo = page.send(jpeg, "../../../../etc/passwd.jpg")
    stored = page.kept.photos[photo["id"]].path
    assert page.kept.folder in stored.parents
    assert ".." not in stored.parts


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"strength": 3}, "strength must be a number from 0 to 2"),
        ({"strength": "nan"}, "strength must be"),
        ({"strength": "much"}, "strength: "),
        ({"headroom": 0.1}, "headroom must be"),
        ({"what": "magic"}, "method must be one of"),
        ({"what": "os:getcwd"}, "is not a method"),
    ],
)
def test_wrong_settings_are_answered_in_a_sentence(page, jpeg, settings, sentence):
    photo = page.send(jpeg)
    for path in ("view", "result"):
        answer = page.get(f"/photos/{photo['id']}/{path}", params=settings)
        assert answer.status_code == 422
        assert sentence in answer.json()["error"]
        assert answer.json()["error"].endswith(".")


# ---- coming and going ----


def test_a_removed_photo_is_gone(page, jpeg):
    photo = page.send(jpeg)
    assert page.delete(f"/photos/{photo['id']}").status_code == 204
    assert page.get(f"/photos/{photo['id']}/view").status_code == 404
    assert not list(page.kept.folder.iterdir())


def test_what_a_page_uploaded_is_gone_when_it_is_closed(page, jpeg):
    page.send(jpeg)
    assert page.kept.folder.exists()
    assert page.post("/close").status_code == 204
    assert not page.kept.folder.exists()
    answer = page.post("/photos", params={"name": "a.jpg"}, content=jpeg)
    assert (answer.status_code, "load it again" in answer.json()["error"]) == (410, True)
    assert page.post("/close").status_code == 204  # the last word may come twice


class Clock:
    """Stands in for the module ``time``: it stands still until it is told to go on."""

    now = 0.0

    def monotonic(self):
        return self.now

    def go_on(self, seconds, page):
        self.now += seconds
        page.client.app.state.pages.forget_silent()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pages, "time", clock)
    return clock


def test_a_page_that_has_gone_without_a_word_is_forgotten(serving, jpeg, clock):
    page = OpenPage(serving(Limits(idle_seconds=10.0)))
    page.send(jpeg)
    clock.go_on(10.0, page)
    assert page.kept.folder.exists()
    clock.now += 0.1
    page.until(lambda: page.kept.folder.exists(), lambda there: not there)  # nobody asks for it


def test_a_failure_does_not_end_the_watch_for_silent_pages(serving, clock, monkeypatch, caplog):
    monkeypatch.setattr(app, "SWEEP", 0.01)
    page = OpenPage(serving(Limits(idle_seconds=10.0)))
    forget_silent, failed = Pages.forget_silent, threading.Event()

    def fails_once(self):
        if not failed.is_set():
            failed.set()
            raise OSError("the disk is gone")
        forget_silent(self)

    monkeypatch.setattr(Pages, "forget_silent", fails_once)
    clock.now += 10.1
    page.until(lambda: page.kept.folder.exists(), lambda there: not there, seconds=20)
    assert "the disk is gone" in caplog.text


def test_a_page_is_closed_while_an_upload_ends(page, jpeg, monkeypatch):
    """The one happens in a thread, the other in the event loop."""
    page.send(jpeg)
    cache = page.client.app.state.pages.cache

    def another_comes(id):
        page.kept.photos.setdefault("another", page.kept.photos[id])

    monkeypatch.setattr(cache, "drop", another_comes)
    page.client.app.state.pages.forget(page.id)
    assert not page.kept.folder.exists()


def test_a_page_that_listens_is_kept(serving, clock):
    page = OpenPage(serving(Limits(idle_seconds=10.0)))
    page.kept.feed._listeners.add((None, None))
    clock.go_on(11.0, page)
    assert page.kept.folder.exists()
    page.kept.feed._listeners.clear()
    clock.go_on(11.0, page)
    assert not page.kept.folder.exists()


def test_everything_is_gone_when_the_server_stops(serving, jpeg):
    client = serving()
    page = OpenPage(client)
    page.send(jpeg)
    client.app.state.pages.close()
    assert not page.kept.folder.parent.exists()


def test_pages_are_limited_in_number(serving):
    client = serving(Limits(pages=2))
    first, _ = (client.post("/api/pages").json()["id"] for _ in range(2))
    answer = client.post("/api/pages")
    assert (answer.status_code, "close one" in answer.json()["error"]) == (503, True)
    client.post(f"/api/pages/{first}/close")
    assert client.post("/api/pages").status_code == 200


def test_a_page_out_of_sight_says_that_it_is_there(serving, clock):
    page = OpenPage(serving(Limits(idle_seconds=10.0)))
    for _ in range(3):
        clock.go_on(9.0, page)
        assert page.post("/alive").status_code == 204
    clock.go_on(11.0, page)
    assert page.post("/alive").status_code == 410


async def sent(page, chunk, meanwhile=None):
    """Send a chunk and wait for what comes ``meanwhile``; the page's bytes as soon as the upload has ended."""

    async def chunks():
        yield chunk
        if meanwhile is not None:
            await meanwhile()

    async with page.receiving("a.jpg", chunks()):
        return page.kept


def test_uploads_at_the_same_time_share_the_room_of_a_page(tmp_path):
    page = Page(tmp_path, Limits(page_bytes=10))

    async def another_comes():
        with pytest.raises(Refused, match="does not fit"):
            await sent(page, b"6bytes")
        assert page.kept == 6  # what was refused does not count
        await sent(page, b"four")  # and fills the page

    async def goes_away():
        raise ConnectionResetError

    assert asyncio.run(sent(page, b"6bytes", another_comes)) == 10
    with pytest.raises(Refused, match="does not fit"):
        asyncio.run(sent(page, b"1"))
    page.kept = 0
    with pytest.raises(ConnectionResetError):
        asyncio.run(sent(page, b"6bytes", goes_away))
    assert page.kept == 0


def test_pages_do_not_see_each_other(serving, jpeg):
    client = serving()
    one, other = OpenPage(client), OpenPage(client)
    photo = one.send(jpeg)
    assert other.get(f"/photos/{photo['id']}/view").status_code == 404


def test_of_twenty_photos_only_a_few_are_in_memory(page, jpeg, monkeypatch):
    """Photos wait as files; no more are decoded at a time than there are workers."""
    inside, most, lock = 0, 0, threading.Lock()
    prepare = StoredPhoto.prepare

    def counted(self):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        prepare(self)
        with lock:
            inside -= 1

    monkeypatch.setattr(StoredPhoto, "prepare", counted)
    ids = [page.post("/photos", params={"name": f"{k}.jpg"}, content=jpeg).json()["id"] for k in range(20)]
    for id in ids:
        assert page.until(lambda id=id: page.news(id), lambda news: news["state"] != "queued")["state"] == "ready"
    assert most <= page.client.app.state.pages.reading._max_workers == 2


def test_pictures_are_kept_within_bounds(serving, jpeg, dark):
    client = serving(replace(Limits(), cache_bytes=int(2.5 * dark.nbytes)))
    page = OpenPage(client)
    photo = page.send(jpeg)
    first = page.get(f"/photos/{photo['id']}/view").content
    for strength in (0.2, 0.4, 0.6, 0.8):
        page.get(f"/photos/{photo['id']}/tile", params={"x": 0, "y": 0, "width": 9, "height": 9, "strength": strength})
        assert len(client.app.state.pages.cache) <= 2
    assert page.get(f"/photos/{photo['id']}/view").content == first  # what was lost is made again
    page.delete(f"/photos/{photo['id']}")
    assert len(client.app.state.pages.cache) == 0


def test_the_preview_of_a_photo_with_a_hidden_margin_is_that_of_what_is_seen():
    alpha = np.zeros((90, 120), np.uint8)
    alpha[20:70, 30:90] = 255
    dark = np.random.default_rng(0).integers(0, 40, (50, 60, 3))
    pictures = [np.full((90, 120, 3), margin, np.uint8) for margin in (0, 255)]
    for picture in pictures:
        picture[20:70, 30:90] = dark
    first, second = (Scene.of(Photo(picture, alpha), "tecu").brightest for picture in pictures)
    np.testing.assert_array_equal(first, second)


def test_black_with_a_cast_is_seen_without_it():
    picture = np.zeros((60, 80, 3), np.uint8)
    picture[...] = (0, 2, 9)
    picture[:12, :20] = 220
    scene = Scene.of(Photo(picture), "tecu")
    assert any(scene.exposure.cast)
    np.testing.assert_allclose(scene.at(Look()).amplification, scene.exposure.amplification, rtol=1e-5)
