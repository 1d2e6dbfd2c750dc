"""A real browser on a real server. ``make test-browser`` sets both up.

The browser is Debian's chromium, or the one that ``TECU_CHROMIUM`` names. Screenshots are kept in the folder
``TECU_SCREENSHOTS``, or in ``screenshots`` beside this file.
"""

import io
import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image, ImageCms
from playwright.sync_api import sync_playwright
from skimage import data

SCREENSHOTS = Path(os.environ.get("TECU_SCREENSHOTS", Path(__file__).parent / "screenshots"))
KINDS = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
}


def chromium():
    found = os.environ.get("TECU_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.exit("there is no chromium; install it or name one by TECU_CHROMIUM", 1)
    return found


@pytest.fixture(scope="session")
def browser():
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"] if root else [])
        yield started
        started.close()


class Server:
    """``tecu serve`` as a process: its address, the folder of its uploads, its memory."""

    def __init__(self, folder):
        self.folder = folder
        command = [sys.executable, "-m", "tecu.cli.main", "serve", "--port", "0", "--no-browser"]
        environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.address = self.process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", self.address)

    def uploads(self):
        return [path for path in self.folder.glob("tecu-serve-*/**/*") if path.is_file()]

    def pages(self):
        return list(self.folder.glob("tecu-serve-*/*"))

    def memory(self):
        return psutil.Process(self.process.pid).memory_info().rss

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0
        self.process.stdout.close()
        assert not self.uploads()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("uploads"))
    yield started
    started.stop()


@pytest.fixture
def open_page(browser, server):
    """``open_page(kind)``: the page in a light or dark window or on a phone; faults of its scripts fail the test."""
    contexts, faults, outside = [], [], []

    def opened(kind="light"):
        context = browser.new_context(accept_downloads=True, **KINDS[kind])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(90_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: outside.append(request.url) if _is_outside(request.url, server) else None)
        page.goto(server.address)
        page.locator("body[data-ready]").wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not outside
    assert not [fault for fault in faults if not re.search("status of (413|422|410)", fault)]


def _is_outside(url, server):
    return not url.startswith((server.address, "blob:", "data:"))


def shot(page, name):
    """Keep a picture of the whole page, to be looked at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@lru_cache
def dark_photo(size=(1500, 1000), seed=0):
    """The bytes of a dark JPEG with EXIF data and a colour profile."""
    original = [data.astronaut, data.coffee, data.chelsea][seed % 3]()
    large = np.asarray(Image.fromarray(original).resize(size, Image.Resampling.BICUBIC))
    noise = np.random.default_rng(seed).normal(0, 2, large.shape)
    exif = Image.Exif()
    exif[0x010F], exif[0x0132] = "A maker of cameras", "2026:11:16 01:02:03"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    stream = io.BytesIO()
    dark = np.clip(0.18 * large + noise, 0, 255).astype(np.uint8)
    Image.fromarray(dark).save(stream, "JPEG", quality=92, exif=exif, icc_profile=profile)
    return stream.getvalue()
