"""Pages of reports: as wide as the window, every slider with a name of its own."""

import pytest

from browser.conftest import dark_photo, shot
from tecu.cli.main import main

LONG = "a_folder_with_a_long_name_without_any_blank/" * 2 + "20261116_010203_and_what_the_camera_adds_to_it.jpg"


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [LONG, LONG.replace(".jpg", "-2.jpg"), LONG.replace(".jpg", "-broken.jpg")]
    (tmp_path / LONG).parent.mkdir(parents=True)
    for k, name in enumerate(names):
        (tmp_path / name).write_bytes(b"" if "broken" in name else dark_photo(seed=k))
    return names


@pytest.fixture
def opened(browser, tmp_path):
    with browser.new_context() as context:

        def open_at(width):
            page = context.new_page()
            page.set_viewport_size({"width": width, "height": 800})
            page.goto((tmp_path / "page.html").as_uri())
            return page

        yield open_at


@pytest.mark.parametrize("width", [320, 375, 1200])
@pytest.mark.parametrize("kind", ["enhance", "compare"])
def test_nothing_is_wider_than_the_window(photos, opened, kind, width):
    if kind == "enhance":
        assert main(["enhance", *photos, "-o", "out", "--report", "page.html"]) == 2
    else:
        assert main(["compare", *photos[:1], photos[0].replace("/", "//", 1), "-o", "page.html"]) == 0
    page = opened(width)
    shot(page, f"report-{kind}-{width}")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width


def test_a_slider_is_found_by_the_name_of_its_photo_and_moves_that_one(photos, opened):
    assert main(["enhance", *photos[:2], "-o", "out", "--report", "page.html"]) == 0
    page = opened(1200)
    page.get_by_role("slider", name="-2.jpg").fill("20")
    places = page.locator(".stage").evaluate_all("all => all.map(each => each.style.getPropertyValue('--at'))")
    assert places == ["", "20%"]
