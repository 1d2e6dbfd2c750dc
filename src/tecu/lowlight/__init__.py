"""Low-light enhancement: from a dark photo to a good one."""

from tecu.lowlight.enhancer import Enhancer, Parts, enhance

__all__ = ["Enhancer", "Parts", "enhance"]
