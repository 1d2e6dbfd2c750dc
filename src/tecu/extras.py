"""What to do about an optional part that is not installed."""

from __future__ import annotations


def how_to_get(extra: str) -> str:
    """The command that brings an extra, for the end of a sentence.

    >>> how_to_get("web")
    "pip install 'tecu[web]' (in a checkout: pip install '.[web]')"
    """
    return f"pip install 'tecu[{extra}]' (in a checkout: pip install '.[{extra}]')"
