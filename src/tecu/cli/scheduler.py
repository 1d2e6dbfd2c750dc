"""``--scheduler ADDRESS``: a running Dask cluster for the commands that can use one."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import click

from tecu.cli.main import PART_MISSING
from tecu.cluster import NoWorkers
from tecu.extras import how_to_get

SECONDS = 10  # that a scheduler may take to answer


def scheduler_option(what: str) -> Callable[[Any], Any]:
    """The option ``--scheduler``."""
    return click.option(
        "--scheduler", metavar="ADDRESS", help=f"{what} on a Dask cluster, such as tcp://10.0.0.1:8786."
    )


class PartMissing(click.exceptions.Exit):
    """Ends a command, after its sentence, with the exit code for a part that is not installed."""

    def __init__(self, sentence: str) -> None:
        click.echo(sentence, err=True)
        super().__init__(PART_MISSING)


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """A client of the scheduler at ``address``, made Dask's default meanwhile; ``None`` without an address."""
    if address is None:
        yield None
        return
    if importlib.util.find_spec("distributed") is None:
        raise PartMissing(f"--scheduler needs dask and distributed: {how_to_get('scale')}")
    from distributed import Client

    try:
        client = Client(address, timeout=SECONDS)
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise click.UsageError(f"--scheduler: no Dask scheduler answers at {address}: {reason}") from error
    try:
        yield client
    except NoWorkers as error:
        raise click.ClickException(f"--scheduler: {error}") from error
    finally:
        client.close()
