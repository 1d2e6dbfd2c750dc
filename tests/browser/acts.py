"""What people do on the page."""

import base64
import io

import numpy as np
from PIL import Image
from playwright.sync_api import expect

DROP = """(target, files) => {
  const carried = new DataTransfer();
  for (const [name, coded] of files) {
    const bytes = Uint8Array.from(atob(coded), (letter) => letter.charCodeAt(0));
    carried.items.add(new File([bytes], name));
  }
  for (const kind of ["dragenter", "dragover", "drop"]) {
    target.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: carried }));
  }
}"""


def drop(page, place, files):
    """Drop files, name to bytes, on an element."""
    coded = [[name, base64.b64encode(content).decode()] for name, content in files.items()]
    page.locator(place).evaluate(DROP, coded)


def ready(page, count):
    """Wait until so many photos are ready, and the pictures of the chosen one are there."""
    expect(page.locator("#strip li[data-state=ready]")).to_have_count(count, timeout=120_000)
    settled(page)


def settled(page):
    """Wait until both pictures are there and nothing is on its way."""
    for side in ("left", "right"):
        page.locator(f"#pane-{side} .whole[src]").wait_for()
    page.locator("#stage[aria-busy=false]").wait_for()


def picture(page, place="#stage"):
    """An element as it is seen, an array of floats."""
    return np.asarray(Image.open(io.BytesIO(page.locator(place).screenshot())).convert("RGB")).astype(float)


def divider(page):
    return float(page.locator("#divider").get_attribute("aria-valuenow"))
