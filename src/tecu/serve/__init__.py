"""The local page of ``tecu serve``: photos and dictionaries in the browser; needs ``pip install tecu[web]``."""

from tecu.serve.app import make_app
from tecu.serve.limits import Limits

__all__ = ["Limits", "make_app"]
