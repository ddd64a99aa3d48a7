"""From source text to a bundle: load in the lane, ask the kit what was defined, write it down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.errors import BadDefinition
from tallystick.model.bundle_python import LANE
from tallystick.modules.lane import Compiled, Space
from tallystick.modules.lint_place import place_of
from tallystick.workflow.build import build
from tallystick.workflow.bundle import Bundle


def bundle_of(files: Mapping[str, bytes], *, structural: bool = True) -> Any:
    """The bundle of the Python sources `{path: bytes}`; equal sources give equal bytes.

    Refuses sources that leave the lane, that define no `Bundle` or more than one, and what the
    checker refuses, with the file and line of it.
    """
    app = app_of(files)
    try:
        return build(app, files, structural=structural)
    except BadDefinition as why:
        file, line = place_of(files, why)
        where = {**why.where, "file": file, "line": line}
        raise BadDefinition(why.message, code=why.code, where=where, hint=why.hint) from why


def app_of(files: Mapping[str, bytes]) -> Bundle:
    """The one `Bundle` that the sources define."""
    found = Space(Compiled(files, LANE)).bundles()
    if len(found) != 1:
        many = "no Bundle" if not found else f"{len(found)} Bundles"
        hint = 'write app = Bundle("shop") once, and hang every definition on it'
        raise BadDefinition(f"the sources define {many}", code="lane.no_bundle", hint=hint)
    return found[0]
