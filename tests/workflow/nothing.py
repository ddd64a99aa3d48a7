"""An app that defines nothing: for what asks its context, and no definition."""

from __future__ import annotations

from functools import cache
from typing import Any

from tallystick.model.catalogue import Catalogue
from tallystick.workflow.build import build
from tallystick.workflow.bundle import Bundle
from tallystick.workflow.ctx import Asked

APP = Bundle("nothing")


@cache
def catalogue() -> Catalogue:
    """The definitions of every app, and no others."""
    made: Catalogue = build(APP, {"app.py": b""}).catalogue()
    return made


def asked(tick: Any, key: bytes | None = None) -> Asked:
    """What may be asked of the context of a tick, or of as much of one as a test gives."""
    return Asked(catalogue(), APP, tick, key)
