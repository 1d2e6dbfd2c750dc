"""A page that is open, and photos to send to it."""

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image, ImageCms
from skimage import data

from serve.open_pages import HOME, OpenPage, encoded
from tecu.serve import Limits, make_app


@pytest.fixture(scope="session")
def dark():
    """A dark photo, 300 x 420."""
    rng = np.random.default_rng(0)
    photo = data.astronaut()[:300, 40:460] * 0.2 + rng.normal(0, 2, (300, 420, 3))
    return np.clip(photo, 0, 255).astype(np.uint8)


@pytest.fixture(scope="session")
def jpeg(dark):
    """The photo as a camera would write it: EXIF and a colour profile."""
    exif = Image.Exif()
    exif[0x010F], exif[0x0132] = "A maker of cameras", "2026:11:16 01:02:03"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return encoded(dark, quality=92, exif=exif, icc_profile=profile)


@pytest.fixture
def serving():
    """``serving(limits)``: a client of a server with these limits."""
    clients = []

    def start(limits=None, **options):
        client = TestClient(make_app(limits or Limits(), **options), base_url=HOME)
        clients.append(client.__enter__())
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def page(serving):
    return OpenPage(serving())
