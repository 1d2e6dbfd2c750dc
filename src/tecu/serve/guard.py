"""Who is answered: the page itself, under the names this server is known by, and with the token if there is one.

A page of another origin can make a browser send requests here, and a host name that an attacker owns can be made to
point here (DNS rebinding). Both are told from our own page by their ``Origin``, ``Sec-Fetch-Site`` and ``Host``
headers, and are answered by an empty 403.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlencode

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

COOKIE = "tecu-token"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class Names:
    """The host names a request may be addressed to.

    On the loopback these are its own three. Beyond it they are the names given, and every IP address: what an attacker
    can make point here is a name, not an address.

    >>> Names()("localhost:8000"), Names()("192.168.0.7:8000"), Names()("evil.example:8000")
    (True, False, False)
    >>> Names(["desk"], beyond=True)("192.168.0.7"), Names(["desk"], beyond=True)("desk:80")
    (True, True)
    """

    def __init__(self, more: Iterable[str] = (), *, beyond: bool = False) -> None:
        self._known = LOOPBACK | {name.lower().rstrip(".") for name in more}
        self._beyond = beyond

    def __call__(self, host: str) -> bool:
        """Whether ``host``, the header with or without a port, is one of them."""
        name = _without_port(host)
        if name in self._known:
            return True
        return self._beyond and _is_address(name)


def _without_port(host: str) -> str:
    host = host.strip().lower()
    if host.startswith("["):
        inside, _, port = host[1:].partition("]")
        return inside if not port or port.startswith(":") else ""
    return host.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Refuses what does not come from the page, and adds the headers that keep the page to itself."""

    def __init__(self, app: App, names: Names, token: str | None = None) -> None:
        self.app, self.names, self.token = app, names, token

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # a web socket: none is spoken here
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        if not self._is_ours(scope, headers):
            await _answer(send, 403)
        elif (answer := self._missing_token(scope, dict(headers))) is not None:
            await _answer(send, *answer)
        else:
            await self.app(scope, receive, _with_headers(send))

    def _is_ours(self, scope: Message, headers: list[tuple[str, str]]) -> bool:
        hosts = [value for name, value in headers if name == "host"]
        if len(hosts) != 1 or not self.names(hosts[0]):
            return False
        origin = f"{scope.get('scheme', 'http')}://{hosts[0]}".lower()
        if any(value.lower() != origin for name, value in headers if name == "origin"):
            return False
        known = dict(headers)
        if known.get("sec-fetch-site", "none") in ("same-origin", "none"):
            return True
        # Someone follows a link to the page: the page itself holds nothing, and no other site can look into it.
        follows = known.get("sec-fetch-mode") == "navigate" and known.get("sec-fetch-dest") == "document"
        return bool(follows and scope["path"] == "/" and scope["method"] == "GET")

    def _missing_token(self, scope: Message, headers: dict[str, str]) -> tuple[Any, ...] | None:
        """The answer to a request without the token; an address with it is exchanged for a cookie."""
        if self.token is None:
            return None
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        given = query.pop("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and self._is_right(given):
            place = "/" + (f"?{urlencode(query, doseq=True)}" if query else "")
            kept = f"{COOKIE}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            return 303, b"", [(b"location", place.encode()), (b"set-cookie", kept.encode())]
        if self._is_right(_cookie(headers.get("cookie", ""))):
            return None
        if self._is_right(headers.get("authorization", "").removeprefix("Bearer ")):
            return None
        return 401, b"Open the address that tecu serve has printed, the one with the token.\n", []

    def _is_right(self, given: str) -> bool:
        return self.token is not None and secrets.compare_digest(given.encode(), self.token.encode())


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def _answer(send: Send, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    length = (b"content-length", str(len(body)).encode())
    kind = (b"content-type", b"text/plain; charset=utf-8")
    await send({"type": "http.response.start", "status": status, "headers": [*HEADERS, kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
        await send(message)

    return sending
