"""``tecu serve``: the local page."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
import threading
import webbrowser
from dataclasses import replace

import click

from tecu.cli.main import PART_MISSING, is_installed
from tecu.extras import how_to_get

NEEDED = ("fastapi", "uvicorn")
MISSING = f"tecu serve needs the extra web: {how_to_get('web')}"


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8040, show_default=True, metavar="N",
              help="Where to listen; 0 takes any free port.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Listen there instead of on this computer only; then a token is needed.")  # fmt: skip
@click.option("--name", "names", multiple=True, metavar="NAME",
              help="A host name by which the page may be addressed; may be given several times.")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Do not open the page in the browser.")
@click.option("--max-photos", type=click.IntRange(1), default=100, show_default=True, metavar="N",
              help="Photos a page may hold.")  # fmt: skip
@click.option("--max-megabytes", type=click.IntRange(1), default=200, show_default=True, metavar="N",
              help="Refuse longer files.")  # fmt: skip
@click.option("--max-pixels", type=click.IntRange(1), default=100_000_000, show_default=True, metavar="N",
              help="Refuse larger photos.")  # fmt: skip
def serve(
    port: int,
    host: str,
    names: tuple[str, ...],
    no_browser: bool,
    max_photos: int,
    max_megabytes: int,
    max_pixels: int,
) -> int:
    """Open the local web page: photos before and after, dictionaries while they are learnt.

    It listens on this computer only, calls nothing outside, and keeps uploads in a temporary folder until the page is
    closed. With --host it can be reached from elsewhere by those who know the token in the printed address; the
    connection is not encrypted. Ctrl-C ends it.
    """
    if any(not is_installed(module) for module in NEEDED):
        click.echo(MISSING, err=True)
        return PART_MISSING
    from tecu.serve import Limits, make_app
    from tecu.serve.photos import warm_up
    from tecu.serve.server import PageServer, bound

    beyond = not _is_loopback(host)
    token = secrets.token_urlsafe(24) if beyond else None
    limits = replace(Limits(), photos=max_photos, file_bytes=max_megabytes << 20, pixels=max_pixels)
    try:
        listening = bound(host, port)
    except OSError as error:
        raise click.UsageError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
    known = [*names, host, *([socket.gethostname()] if beyond else [])]  # 127.0.0.2 is on the loopback, too
    app = make_app(limits, names=known, beyond=beyond, token=token)
    app.state.pages.slow.submit(warm_up)
    server = PageServer(app)
    address = _address(host, listening.getsockname()[1], token)
    click.echo(f"{address}\nCtrl-C ends it.")
    if not no_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):
        server.serve_on(listening)
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(host: str, port: int, token: str | None) -> str:
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")
