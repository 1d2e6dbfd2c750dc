"""A page as its scripts see it, and photos as files."""

import io
import time

from PIL import Image

HOME = "http://127.0.0.1:8040"


def encoded(pixels, kind="JPEG", **options):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


class OpenPage:
    """A page as its scripts see it."""

    def __init__(self, client):
        self.client = client
        self.id = client.post("/api/pages").json()["id"]
        self.address = f"/api/pages/{self.id}"
        self.kept = client.app.state.pages.get(self.id)

    def get(self, path, **options):
        return self.client.get(self.address + path, **options)

    def post(self, path, **options):
        return self.client.post(self.address + path, **options)

    def delete(self, path):
        return self.client.delete(self.address + path)

    def send(self, content, name="photo.jpg"):
        """Send a photo and wait until it has been looked at; its latest news are returned."""
        answer = self.post("/photos", params={"name": name}, content=content)
        assert answer.status_code == 201, answer.text
        return self.until(lambda: self.news(answer.json()["id"]), lambda news: news["state"] != "queued")

    def news(self, id):
        return next(news for news in self.kept.feed.since(0)[1] if news.get("id") == id)

    def learning(self):
        return next(news for news in self.kept.feed.since(0)[1] if news["subject"] == "learning")

    @staticmethod
    def until(ask, wanted, seconds=60.0):
        end = time.monotonic() + seconds
        while not wanted(found := ask()):
            assert time.monotonic() < end, found
            time.sleep(0.01)
        return found
