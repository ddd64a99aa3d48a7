"""Tallystick: a workflow runtime for people who must be able to prove what happened.

The canonical codec may be compiled (`scripts/build_fast`) from the very source of the pure one.
It is preferred when it is there and was built from the source that is installed; TALLY_PURE=1
forces the pure path.
Both give equal bytes and equal errors.
"""

import importlib as _importlib
import os as _os
import sys as _sys
from hashlib import sha256 as _sha256
from pathlib import Path as _Path

__version__ = "0.1.0"

__all__ = ["__version__"]


def _prefer_compiled() -> bool:
    """Put the compiled codec in the place of the pure one; False when it is not to be used."""
    if _os.environ.get("TALLY_PURE") == "1":
        return False
    here = _Path(__file__).parent
    try:
        built_from = (here / "_fast" / "canon.sha256").read_text(encoding="ascii").strip()
        source = (here / "values" / "canon.py").read_bytes()
    except (OSError, UnicodeError):
        return False  # not built, which is the usual case
    if _sha256(source).hexdigest() != built_from:
        return False  # built from another source: its rules may differ
    try:
        compiled = _importlib.import_module("tallystick._fast.canon")
    except ImportError:
        return False  # built for another Python
    # Before anyone can import the pure one: two codecs in one process would be two sets of caches.
    _sys.modules["tallystick.values.canon"] = compiled
    values = _importlib.import_module("tallystick.values")
    values.canon = compiled  # type: ignore[attr-defined]  # what an import would have set
    return True


_prefer_compiled()
