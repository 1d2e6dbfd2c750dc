"""Image quality: PSNR, SSIM and LOE against a reference, NIQE without one.

Images are ``(rows, columns)`` or ``(rows, columns, channels)`` arrays: ``uint8``, ``uint16`` or floats in [0,
1].
"""

from tecu.metrics.loe import loe
from tecu.metrics.niqe import niqe
from tecu.metrics.psnr import psnr
from tecu.metrics.ssim import ssim

__all__ = ["loe", "niqe", "psnr", "ssim"]
