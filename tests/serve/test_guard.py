"""Who is answered, and what every answer says about where scripts may come from."""

import re
from importlib.resources import files

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from serve.open_pages import HOME
from tecu.serve import Limits, make_app

REQUESTS = [
    ("GET", "/"),
    ("GET", "/page/main.js"),
    ("GET", "/nowhere"),
    ("POST", "/api/pages"),
    ("POST", "/api/pages/x/photos?name=a.jpg"),
    ("GET", "/api/pages/x/photos/y/view"),
    ("POST", "/api/pages/x/learning"),
    ("OPTIONS", "/api/pages"),
]
each_request = pytest.mark.parametrize(("method", "path"), REQUESTS, ids=[f"{m} {p}" for m, p in REQUESTS])


@pytest.fixture(scope="module")
def home():
    """A client of a server on the loopback."""
    with TestClient(make_app(Limits(pages=100)), base_url=HOME) as client:
        yield client


def answers_nothing(answer):
    return answer.status_code == 403 and answer.content == b""


@each_request
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8040", "127.0.0.1.evil.example", "10.0.0.1", "", "[::1]x", "localhost.evil"]
)
def test_another_host_name_is_answered_nothing(home, method, path, host):
    assert answers_nothing(home.request(method, path, headers={"host": host}))


@each_request
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://127.0.0.1:8040", "http://127.0.0.1:9", "http://localhost:8040", "null"]
)
def test_another_origin_is_answered_nothing(home, method, path, origin):
    assert answers_nothing(home.request(method, path, headers={"origin": origin}))


@each_request
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_embeds_is_answered_nothing(home, method, path, site):
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert answers_nothing(home.request(method, path, headers=headers))


def test_a_link_from_elsewhere_leads_to_the_page_and_nowhere_else(home):
    follows = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert home.get("/", headers=follows).status_code == 200
    assert answers_nothing(home.get("/page/main.js", headers=follows))
    assert answers_nothing(home.post("/api/pages", headers=follows))
    assert answers_nothing(home.get("/", headers={**follows, "sec-fetch-dest": "iframe"}))


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:8040", "LOCALHOST"])
def test_the_loopback_has_three_names(home, host):
    assert home.get("/", headers={"host": host}).status_code == 200
    assert home.post("/api/pages", headers={"host": host, "origin": f"http://{host}"}).status_code == 200


def test_beyond_the_loopback_addresses_and_given_names_are_good(serving):
    client = serving(names=["desk.local"], beyond=True)
    for host in ("192.168.1.7:8040", "desk.local:8040", "[fe80::1]:8040", "localhost"):
        assert client.get("/", headers={"host": host}).status_code == 200
    assert answers_nothing(client.get("/", headers={"host": "rebound.example"}))


def test_the_token_is_asked_of_every_request(serving):
    client = serving(beyond=True, token="right")
    for path in ("/", "/page/main.js", "/?token=wrong", "/page/main.js?token=right"):
        assert client.get(path).status_code == 401
    assert client.post("/api/pages").status_code == 401
    assert client.post("/api/pages", headers={"authorization": "Bearer right"}).status_code == 200
    assert client.post("/api/pages", headers={"cookie": "tecu-token=wrong"}).status_code == 401


def test_the_address_with_the_token_is_exchanged_for_a_cookie(serving):
    client = serving(beyond=True, token="right")
    first = client.get("/?token=right", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/")  # the token leaves the address line
    assert {"HttpOnly", "SameSite=Strict"} <= set(first.headers["set-cookie"].split("; "))
    assert client.get("/").status_code == 200
    assert client.post("/api/pages").status_code == 200


@pytest.mark.parametrize("path", ["/", "/page/style.css", "/nowhere", "/api/pages/x/events"])
@pytest.mark.parametrize("headers", [{}, {"host": "evil.example"}])
def test_every_answer_forbids_what_comes_from_elsewhere(home, path, headers):
    answer = home.get(path, headers=headers)
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    allowed = {source for sources in policy.values() for source in sources.split()}
    assert allowed <= {"'self'", "'none'", "blob:"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"  # the address may hold the token
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"


PAGE = {entry.name: entry.read_text(encoding="utf-8") for entry in files("tecu.serve").joinpath("page").iterdir()}


@pytest.mark.parametrize("name", PAGE)
def test_the_page_calls_nothing_outside(name, home):
    outside = [url for url in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`)]*", PAGE[name]) if "w3.org" not in url]
    assert not outside
    assert home.get("/" if name == "index.html" else f"/page/{name}").text == PAGE[name]
    assert len(PAGE[name].splitlines()) <= 300


def test_scripts_and_page_agree_on_their_names():
    page = PAGE["index.html"]
    ids = re.findall(r'\bid="([\w-]+)"', page)
    assert len(ids) == len(set(ids))
    used = {
        id
        for name, text in PAGE.items()
        if name.endswith(".js")
        for id in re.findall(r'(?:byId|ById)\("([\w-]+)"', text)
    }
    assert used <= set(ids)
    assert set(re.findall(r'(?:for|aria-controls|aria-labelledby|aria-describedby)="([\w-]+)"', page)) <= set(ids)
    assert not re.search(r"\son\w+=|\sstyle=|<script(?![^>]*src=)", page)  # the policy would not run them


def test_no_web_socket_is_opened(home):
    with pytest.raises(WebSocketDisconnect), home.websocket_connect("/"):
        pass


def test_no_documentation_page_of_the_framework_is_there(home):
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert home.get(path).status_code == 404
