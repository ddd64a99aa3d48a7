"""Jobs: an open intent as it leaves the kernel, with all that its executor is bounded by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.grants import tools_of
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.parts import PLAY_STEP, Intent
from tallystick.kernel.pins import workflow_of
from tallystick.kernel.world import World
from tallystick.model.catalogue import Catalogue
from tallystick.model.cells import CellId
from tallystick.model.effects import dispatch_key
from tallystick.model.tuples import make


class Published(NamedTuple):
    """One open intent as it leaves the kernel; `dispatch` makes an executor's job of it."""

    world: str
    intent: bytes
    dispatch_key: bytes
    effect: str
    executor: str
    params: bytes
    attempt: int
    deadline_ns: int | None
    workflow: str
    key: bytes
    grant: str | None
    granted: Mapping[str, Any] | None
    catalogue: Catalogue


def job_of(world: World, blobs: StagedBlobs, ident: bytes, intent: Intent) -> Published:
    """An open intent as it leaves the kernel; refuses one whose parameters the disk has lost."""
    record = intent.record
    params = record.params
    if params is None:
        assert record.params_hash is not None, "parameters stand inline or by digest"
        params = read_blob(blobs, record.params_hash)
    capability = record.judged.capability
    fields = (
        world.id,
        ident,
        dispatch_key(world.id, ident),
        record.effect,
        record.executor,
        params,
        intent.attempt,
        record.timeout_at_ns,
        record.origin.workflow,
        record.origin.key,
        None if capability is None else capability.grant,
        _granted(world, intent),
        world.catalogue(intent.manifest),
    )
    return make(Published, fields)


def _granted(world: World, intent: Intent) -> Mapping[str, Any] | None:
    """The fields of the grant that said yes: what an executor may do is bounded by them."""
    judged, origin = intent.record.judged.capability, intent.record.origin
    if judged is None:
        return None
    if intent.record.effect == PLAY_STEP:
        return _tools(world, CellId(origin.workflow, origin.key))
    known = world.catalogue(intent.manifest).grants.get(judged.grant)
    if known is not None:
        return known.params
    cell = world.cell(CellId(origin.workflow, origin.key))
    assert cell is not None, "a cell with open intents exists"
    assert cell.caps is not None, "a derived grant stands with its cell"
    params: Mapping[str, Any] = cell.caps["grants"][judged.grant]["params"]
    return params


def _tools(world: World, ident: CellId) -> Mapping[str, Any]:
    """What the tools of a playbook may do, by kind; a grant that was revoked gives nothing."""
    cell = world.cell(ident)
    assert cell is not None, "a cell with open intents exists"
    held = tools_of(world, cell, workflow_of(world, cell))
    gone = world.revoked
    return {kind: grant.params for kind, grant in held.items() if grant.name not in gone}
