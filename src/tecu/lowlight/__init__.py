"""Low-light enhancement: from a dark photo to a good one."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tecu.lowlight.enhancer import Enhancer, Parts, enhance

__all__ = ["Enhancer", "Parts", "enhance"]


def __getattr__(name: str) -> Any:
    """Import the enhancer at its first use: reading photo files and scoring them do without it."""
    if name in __all__:
        from tecu.lowlight import enhancer

        return getattr(enhancer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
