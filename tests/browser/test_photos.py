"""The photos tab, as someone uses it."""

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from browser.acts import divider, drop, picture, ready, settled
from browser.conftest import dark_photo, shot
from tecu.lowlight import Enhancer
from tecu.lowlight.files import read_photo


@pytest.fixture
def photo_page(open_page):
    """The page with one photo on it."""
    page = open_page()
    drop(page, "#photo-drop", {"holiday.jpg": dark_photo()})
    ready(page, 1)
    return page


@pytest.mark.parametrize("kind", ["light", "dark", "phone"])
def test_a_dropped_photo_is_shown_before_and_after(open_page, kind):
    page = open_page(kind)
    shot(page, f"{kind}-empty")
    drop(page, "#photo-drop", {"holiday.jpg": dark_photo()})
    ready(page, 1)
    seen = picture(page)
    middle = seen.shape[1] // 2
    assert seen[:, middle + 60 :].mean() > 2 * seen[:, : middle - 60].mean()
    page.get_by_text("How the light was found").click()
    expect(page.locator("#run-words .verdict")).to_contain_text("The convergence theorem covers")
    assert page.locator("#run-plots svg").count() == 2
    shot(page, f"{kind}-photo")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == (kind == "dark")


def test_the_divider_is_dragged(photo_page):
    page = photo_page
    box = page.locator("#stage").bounding_box()
    handle = page.locator("#divider").bounding_box()
    before = picture(page)
    page.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.5 * box["height"], steps=5)
    page.mouse.up()
    assert divider(page) == pytest.approx(20, abs=1)
    after = picture(page)
    columns = slice(int(0.25 * after.shape[1]), int(0.4 * after.shape[1]))
    assert after[:, columns].mean() > 2 * before[:, columns].mean()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 5)  # let go: it stays
    assert divider(page) == pytest.approx(20, abs=1)


def test_the_divider_obeys_the_keyboard(photo_page):
    page = photo_page
    page.locator("#divider").focus()
    for key, place in (("Home", 0), ("ArrowRight", 2), ("PageUp", 12), ("ArrowLeft", 10), ("End", 100)):
        page.keyboard.press(key)
        assert divider(page) == place
    assert "100 % Original" in page.locator("#divider").get_attribute("aria-valuetext")


def test_the_divider_obeys_a_finger(open_page):
    page = open_page("phone")
    drop(page, "#photo-drop", {"holiday.jpg": dark_photo()})
    ready(page, 1)
    box = page.locator("#stage").bounding_box()
    page.touchscreen.tap(box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"])
    assert divider(page) == pytest.approx(75, abs=2)


@pytest.mark.parametrize(("name", "key"), [("strength", "ArrowRight"), ("headroom", "ArrowLeft")])
def test_a_slider_changes_the_picture(photo_page, name, key):
    page = photo_page
    page.locator("#divider").focus()
    page.keyboard.press("Home")
    before = picture(page, "#pane-right")
    page.locator(f"#{name}").focus()
    for _ in range(25):
        page.keyboard.press(key)
    settled(page)
    after = picture(page, "#pane-right")
    shown = float(page.locator(f"#{name}-value").inner_text())
    assert shown == pytest.approx({"strength": 1.25, "headroom": 0.72}[name])
    sign = 1 if name == "strength" else -1
    assert sign * (after.mean() - before.mean()) > 1
    page.get_by_role("button", name="Reset").click()
    settled(page)
    assert np.abs(picture(page, "#pane-right") - before).mean() < 1


def test_strength_0_is_the_original_and_denoising_can_be_left_out(photo_page):
    page = photo_page
    smooth = picture(page, "#pane-right")
    page.get_by_label("Remove the noise").uncheck()
    settled(page)
    rough = picture(page, "#pane-right")
    right = slice(int(0.6 * rough.shape[1]), None)
    assert np.abs(np.diff(rough[:, right], axis=1)).mean() > 1.1 * np.abs(np.diff(smooth[:, right], axis=1)).mean()
    page.locator("#strength").fill("0")
    settled(page)
    page.locator("#divider").focus()
    page.keyboard.press("Home")
    result = picture(page, "#pane-right")
    page.keyboard.press("End")
    assert np.abs(picture(page, "#pane-left") - result)[:, :-30].mean() < 1


def test_100_percent_shows_the_pixels_of_the_result(photo_page):
    page = photo_page
    page.get_by_role("button", name="100 %").click()
    for side in ("left", "right"):
        page.locator(f"#pane-{side} .tile[src]").wait_for()
    settled(page)
    shot(page, "light-zoomed")
    page.locator("#divider").focus()
    page.keyboard.press("Home")
    place = page.locator("#pane-right").evaluate(
        "pane => [pane.scrollLeft, pane.scrollTop, pane.clientWidth, pane.clientHeight]"
    )
    x, y, width, height = map(round, place)
    seen = picture(page, "#pane-right")[60 : height - 1, 30 : width - 1]  # without the name and the divider's handle
    result = Enhancer()(read_photo(dark_photo()).pixels).astype(float)
    rows, columns = seen.shape[:2]
    misfits = []
    for down in (59, 60, 61):  # the pane may begin between two pixels of the screen
        for right in (29, 30, 31):
            part = result[y + down : y + down + rows, x + right : x + right + columns]
            misfits.append(np.abs(seen - part).mean())
    assert min(misfits) < 2
    page.locator("#pane-right").evaluate(  # a scroll is told at the next frame, to the page's own listener first
        "pane => new Promise(done => { pane.addEventListener('scroll', done, {once: true}); pane.scrollTo(5, 7); })"
    )
    settled(page)
    assert page.locator("#pane-left").evaluate("pane => [pane.scrollLeft, pane.scrollTop]") == [5, 7]


def test_two_methods_stand_side_by_side(photo_page):
    page = photo_page
    page.locator("#left").select_option("he")
    page.locator("#right").select_option("lime")
    page.get_by_text("Side by side").click()
    settled(page)
    left, right = (page.locator(f"#pane-{side}").bounding_box() for side in ("left", "right"))
    assert left["x"] + left["width"] <= right["x"]
    assert page.locator("#divider").is_hidden()
    shot(page, "light-side-by-side")
    page.locator("#left").select_option("illumination")
    page.locator("#right").select_option("reflectance")
    settled(page)
    shot(page, "light-layers")
    light = picture(page, "#pane-left")[60:]
    assert np.abs(light - light.mean(axis=2, keepdims=True)).max() < 12  # grey, up to the coarse colours of a JPEG


def test_settings_that_a_classical_method_does_not_know_cannot_be_set(photo_page):
    page = photo_page
    headroom, denoise = page.locator("#headroom"), page.locator("#denoise")
    for left, right, known in (
        ("original", "lime", (False, False)),
        ("illumination", "lime", (True, False)),
        ("tecu", "lime", (True, True)),
        ("original", "original", (True, True)),  # then tecu is what is downloaded
        ("he", "lime", (False, False)),
        ("original", "pam", (True, True)),
    ):
        page.locator("#left").select_option(left)
        page.locator("#right").select_option(right)
        assert (headroom.is_enabled(), denoise.is_enabled()) == known
        assert (page.locator("#unknown").inner_text() == "") == all(known)
        assert page.locator("#strength").is_enabled()
    settled(page)


def test_the_illumination_is_that_of_the_headroom(photo_page):
    page = photo_page
    page.locator("#right").select_option("illumination")
    settled(page)
    with page.expect_response(lambda answer: "what=illumination" in answer.url and "headroom=0.5" in answer.url):
        page.locator("#headroom").fill("0.5")
    settled(page)


def test_a_download_keeps_the_metadata(photo_page):
    page = photo_page
    page.locator("#strength").fill("0.8")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download", exact=True).click()
    assert waiting.value.suggested_filename == "holiday-enhanced.jpg"
    content = Path(waiting.value.path()).read_bytes()
    before, after = Image.open(io.BytesIO(dark_photo())), Image.open(io.BytesIO(content))
    assert dict(after.getexif()) == dict(before.getexif())
    assert after.info["icc_profile"] == before.info["icc_profile"]
    assert after.size == before.size
    expected = Enhancer(strength=0.8)(np.asarray(before))
    assert np.abs(np.asarray(after).astype(float) - expected).mean() < 4


def test_a_broken_file_says_what_is_wrong_and_the_others_go_on(open_page):
    page = open_page()
    good = dark_photo()
    files = {"cut.jpg": good[:3000], "letter.jpg": b"Dear Sir or Madam", "good.jpg": good, "nothing.png": b""}
    drop(page, "#photo-drop", files)
    ready(page, 1)
    told = page.locator("#failures li")
    expect(told).to_have_count(3)
    sentences = "\n".join(told.all_inner_texts())
    for sentence in ("cut.jpg could not be decoded", "letter.jpg is not a photo", "nothing.png is empty"):
        assert sentence in sentences
    shot(page, "light-broken")
    page.get_by_role("button", name="Dismiss: letter.jpg").click()
    expect(told).to_have_count(2)


def test_twenty_photos_neither_freeze_the_page_nor_eat_the_memory(open_page, server):
    page = open_page()
    size = (3000, 2000)
    contents = [dark_photo(size, k) for k in range(3)]
    before = server.memory()
    ticks = page.evaluate_handle(
        "() => { const seen = []; setInterval(() => seen.push(performance.now()), 50); return seen; }"
    )
    drop(page, "#photo-drop", {f"photo-{k:02}.jpg": contents[k % 3] for k in range(20)})
    expect(page.locator("#strip li")).to_have_count(20)
    page.get_by_role("tab", name="Dictionary").click()  # the page can be used meanwhile
    expect(page.locator("#matrix-drop")).to_be_visible()
    page.get_by_role("tab", name="Photos").click()
    expect(page.locator("#strip li:not([data-state=ready])")).not_to_have_count(0)
    most = 0
    while page.locator("#strip li[data-state=ready]").count() < 20:
        most = max(most, server.memory() - before)
        page.wait_for_timeout(100)
    shot(page, "light-twenty")
    ready(page, 20)
    gaps = np.diff(ticks.json_value())
    assert gaps.size > 10
    assert np.median(gaps) < 500  # it was never busy for long; a frozen page does not tick at all
    assert most < 20 * size[0] * size[1] * 3  # less than if all were in memory at once
    with page.expect_download(timeout=180_000) as waiting:
        page.get_by_role("button", name="Download all").click()
    with zipfile.ZipFile(waiting.value.path()) as archive:
        assert archive.namelist() == [f"photo-{k:02}-enhanced.jpg" for k in range(20)]
        assert Image.open(archive.open("photo-07-enhanced.jpg")).size == size


def test_settings_are_those_of_a_photo_or_of_all(open_page):
    page = open_page()
    drop(page, "#photo-drop", {f"{name}.jpg": dark_photo(seed=k) for k, name in enumerate("abc")})
    ready(page, 3)
    items = page.locator("#strip button")
    items.nth(0).click()
    page.locator("#strength").fill("1.5")
    items.nth(1).click()
    assert page.locator("#strength").input_value() == "1"
    items.nth(0).click()
    assert page.locator("#strength").input_value() == "1.5"
    page.get_by_role("button", name="Use for all photos").click()
    items.nth(2).click()
    assert page.locator("#strength").input_value() == "1.5"
    page.get_by_role("button", name="Remove").click()
    expect(items).to_have_count(2)
    expect(page.locator("#photo-name")).to_have_text("b.jpg")


def test_uploads_are_gone_when_the_page_is_closed(open_page, server):
    page = open_page()
    drop(page, "#photo-drop", {"secret.jpg": dark_photo()})
    ready(page, 1)
    assert any(path.name == "secret.jpg" for path in server.uploads())
    other = open_page()
    page.close(run_before_unload=True)
    for _ in range(100):
        if not any(path.name == "secret.jpg" for path in server.uploads()):
            break
        other.wait_for_timeout(100)
    assert not any(path.name == "secret.jpg" for path in server.uploads())
