"""The page as a whole: reachable by its own origin only, by keyboard and screen reader, on a small screen."""

import http.server
import threading

import pytest
from playwright.sync_api import expect

from browser.acts import drop, ready
from browser.conftest import dark_photo

ATTACK = """<!doctype html><title>elsewhere</title><body><script>
const told = { image: "waiting", read: "waiting", blind: "waiting" };
const image = new Image();
image.onload = () => told.image = "loaded";
image.onerror = () => told.image = "refused";
image.src = "%(address)spage/icon.svg";
const post = (name, options) => fetch("%(address)sapi/pages", { method: "POST", ...options })
  .then(() => told[name] = "done", () => told[name] = "refused");
post("read", {});
post("blind", { mode: "no-cors" });
</script>"""


@pytest.fixture
def elsewhere(server):
    """A page of another origin that tries to reach ours."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write((ATTACK % {"address": server.address}).encode())

        def log_message(self, *_):
            """Nobody wants to know."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://localhost:{serving.server_address[1]}/"
        serving.shutdown()
        thread.join()


def test_a_page_of_another_origin_gets_nothing(browser, server, elsewhere):
    with browser.new_context() as context:
        page = context.new_page()
        before = server.pages()
        page.goto(elsewhere)
        for _ in range(100):
            told = page.evaluate("told")
            if "waiting" not in told.values():
                break
            page.wait_for_timeout(50)
        assert told["image"] == "refused"
        assert told["read"] == "refused"
        assert server.pages() == before  # what was sent without being read has done nothing either
        frame = context.new_page()
        frame.goto(elsewhere)
        frame.evaluate(
            "address => document.body.append(Object.assign(document.createElement('iframe'), { src: address }))",
            server.address,
        )
        frame.wait_for_timeout(500)
        assert all(inner.locator("#photo-drop").count() == 0 for inner in frame.frames[1:])


ROLES = {
    "button",
    "slider",
    "checkbox",
    "combobox",
    "textbox",
    "spinbutton",
    "tab",
    "radio",
    "link",
    "DisclosureTriangle",
}


def nameless(page):
    """Things one can operate that a screen reader has no name for."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    operable = [node for node in tree if not node.get("ignored") and node.get("role", {}).get("value") in ROLES]
    assert len(operable) >= 4
    return [node for node in operable if not node.get("name", {}).get("value")]


def test_everything_operable_has_a_name(open_page):
    page = open_page()
    assert not nameless(page)
    drop(page, "#photo-drop", {"a.jpg": dark_photo(), "broken.jpg": b"text"})
    ready(page, 1)
    assert not nameless(page)
    page.get_by_role("tab", name="Dictionary").click()
    page.get_by_role("button", name="Take an example").click()
    expect(page.locator("#matrix-name")).to_contain_text("1500 samples")
    assert not nameless(page)


def test_the_keyboard_alone_reaches_everything(open_page):
    page = open_page()
    drop(page, "#photo-drop", {"a.jpg": dark_photo()})
    ready(page, 1)
    reached = []
    page.keyboard.press("Tab")
    for _ in range(40):
        reached.append(
            page.evaluate("document.activeElement.id || document.activeElement.textContent.trim().slice(0, 20)")
        )
        page.keyboard.press("Tab")
    wanted = ["tab-photos", "choose-photos", "left", "right", "zoom", "divider", "strength", "headroom", "denoise"]
    wanted += ["reset", "for-all", "download", "download-all", "remove"]
    places = [reached.index(id) for id in wanted]
    assert places == sorted(places)
    page.locator("#tab-photos").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#matrix-drop")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "tab-dictionary"
    page.keyboard.press("ArrowRight")
    expect(page.locator("#photo-drop")).to_be_visible()


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_is_wider_than_a_phone(open_page, width):
    page = open_page("phone")
    page.set_viewport_size({"width": width, "height": 800})
    wide = "document.scrollingElement.scrollWidth"
    assert page.evaluate(wide) <= width
    drop(
        page,
        "#photo-drop",
        {f"a rather long name of a photo {k}.jpg": dark_photo(seed=k) for k in range(4)} | {"x" * 90: b""},
    )
    ready(page, 4)
    page.get_by_text("How the light was found").click()
    expect(page.locator("#run-words .verdict")).to_be_visible()
    assert page.evaluate(wide) <= width
    page.get_by_text("Side by side").click()
    page.get_by_role("button", name="100 %").click()
    assert page.evaluate(wide) <= width
    page.get_by_role("tab", name="Dictionary").click()
    page.get_by_role("button", name="Take an example").click()
    expect(page.locator("#matrix-name")).to_contain_text("1500 samples")
    assert page.evaluate(wide) <= width


def test_a_page_that_the_server_has_forgotten_says_so(open_page, server):
    page = open_page()
    address = page.evaluate(
        "performance.getEntriesByType('resource').map((e) => e.name).find((n) => n.includes('/events')) || ''"
    )
    page.evaluate("window.dispatchEvent(new Event('pagehide'))")  # as if it had been closed
    expect(page.locator("#lost")).to_be_visible(timeout=30_000)
    expect(page.locator("#lost")).to_contain_text("load the page again")
    assert address == "" or address.startswith(server.address)
