"""The server as a process, and the news it sends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx2 as httpx
import pytest

from tecu.cli.main import main
from tecu.extras import how_to_get
from tecu.serve import Limits, make_app
from tecu.serve.feed import Feed
from tecu.serve.server import PageServer, bound


@pytest.fixture
def server():
    """A real server in a thread: its address and its pages."""
    app = make_app(Limits(idle_seconds=0.5))
    listening = bound("127.0.0.1", 0)
    running = PageServer(app)
    running.config.lifespan = "on"
    thread = threading.Thread(target=running.serve_on, args=[listening])
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.pages
    running.handle_exit(signal.SIGTERM, None)
    thread.join(20)
    listening.close()
    assert not thread.is_alive()


def heard(lines, wanted):
    """The first news that are wanted."""
    for line in lines:
        if line.startswith("data: ") and wanted(news := json.loads(line[6:])):
            return news
    raise AssertionError("the stream has ended")


def test_news_come_as_they_happen(server, jpeg):
    address, pages = server
    with httpx.Client(base_url=address, timeout=30) as client:
        page = client.post("/api/pages").json()["id"]
        with client.stream("GET", f"/api/pages/{page}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            sent = client.post(f"/api/pages/{page}/photos", params={"name": "a.jpg", "tag": "7"}, content=jpeg).json()
            ready = heard(lines, lambda news: news["state"] == "ready")
            assert (ready["id"], ready["tag"], ready["width"]) == (sent["id"], "7", 420)
            time.sleep(1.0)  # longer than a silent page is kept
            pages.forget_silent()
            assert client.get(f"/api/pages/{page}/photos/{sent['id']}/view").status_code == 200
            client.post(f"/api/pages/{page}/close")
            with pytest.raises(AssertionError, match="ended"):
                heard(lines, lambda news: False)
        assert client.get(f"/api/pages/{page}/photos/{sent['id']}/view").status_code == 410


def test_a_listener_that_comes_again_gets_the_latest_of_each():
    feed = Feed()
    for state in ("queued", "ready"):
        for photo in ("a", "b"):
            feed.tell(photo, {"id": photo, "state": state})
    count, news = feed.since(0)
    assert news == [{"id": "a", "state": "ready"}, {"id": "b", "state": "ready"}]
    feed.forget("a")
    feed.tell("b", {"id": "b", "state": "gone"})
    assert feed.since(count)[1] == feed.since(0)[1] == [{"id": "b", "state": "gone"}]


def start(*arguments, folder):
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "tecu.cli.main", "serve", "--port", "0", "--no-browser", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    line = process.stdout.readline().strip()
    return process, line


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_told_to_stop(tmp_path, jpeg, sign):
    process, address = start(folder=tmp_path)
    try:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        with httpx.Client(base_url=address, timeout=30) as client:
            assert "<title>tecu</title>" in client.get("/").text
            assert client.get("/", headers={"host": "evil.example"}).status_code == 403
            page = client.post("/api/pages").json()["id"]
            client.post(f"/api/pages/{page}/photos", params={"name": "a.jpg"}, content=jpeg)
            assert list(tmp_path.glob("tecu-serve-*/*/*/a.jpg"))
            with client.stream("GET", f"/api/pages/{page}/events") as stream:
                next(stream.iter_lines())
                process.send_signal(sign)
                assert process.wait(20) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()
    assert not list(tmp_path.glob("tecu-serve-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the loopback has one address")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_the_printed_address_is_answered(tmp_path, host):
    process, address = start("--host", host, folder=tmp_path)
    try:
        assert re.fullmatch(rf"http://{host}:\d+/", address)
        assert httpx.get(address, timeout=30).status_code == 200  # it is warming up meanwhile
        assert httpx.get(address, timeout=30, headers={"host": "evil.example"}).status_code == 403
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_beyond_this_computer_a_token_is_needed(tmp_path):
    process, address = start("--host", "0.0.0.0", folder=tmp_path)
    try:
        found = re.fullmatch(r"http://([^/]+):(\d+)/\?token=([\w-]{20,})", address)
        assert found
        own = f"http://127.0.0.1:{found[2]}"
        assert httpx.get(own).status_code == 401
        assert httpx.get(f"{own}/?token={found[3]}").status_code == 303
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_a_port_that_is_taken_is_told(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", "--no-browser", "--port", str(taken.getsockname()[1])]) == 1
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_missing_part_is_named(missing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["serve"]) == 3
    assert capsys.readouterr().err == f"tecu serve needs the extra web: {how_to_get('web')}\n"


def test_nothing_is_left_in_the_temporary_folder():
    before = set(Path(tempfile.gettempdir()).glob("tecu-serve-*"))
    app = make_app()
    app.state.pages.open()
    app.state.pages.close()
    assert set(Path(tempfile.gettempdir()).glob("tecu-serve-*")) <= before
