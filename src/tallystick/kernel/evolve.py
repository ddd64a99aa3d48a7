"""Evolution: a state and an event of before an upgrade, as today's workflow takes them (06 s. 10).

It happens in the frame of the tick that needs it, and only for what is older than the newest
change of the manifest: states are migrated or read under their newer shape, mail that waited is
upcast.
What cannot be carried on is a fault of that one cell.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.kernel.parts import Cell, Mail
from tallystick.kernel.world import World
from tallystick.model import envelopes
from tallystick.model.abi import Halted
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.effects import event_hash
from tallystick.model.records import StateMigrated
from tallystick.values import canon
from tallystick.values.schema import Admitted

MIGRATION_FAILED: Final = "migration_failed"
UPCAST_FAILED: Final = "upcast_failed"
_ENGINE: Final = "kernel"
_SENT: Final = frozenset(
    {envelopes.RECEIPT, envelopes.REJECTED, envelopes.PROGRESS, envelopes.CANCEL}
)


class Older(NamedTuple):
    """A delivery that crosses a change: the cell, what waits for it, and what it runs under."""

    world: World
    catalogue: Catalogue
    workflow: Workflow
    cell: Cell
    mail: Mail


class Evolved(NamedTuple):
    """The same as the workflow takes it; `migrated` is the evidence if migrations ran."""

    state: bytes | None
    version: int
    mail: Mail
    migrated: StateMigrated | None


class Moved(NamedTuple):
    """A migrated state, and the evidence that it was."""

    state: bytes
    evidence: StateMigrated


def is_older(world: World, workflow: Workflow, cell: Cell, mail: Mail) -> bool:
    """True when a cell or what waits for it stands before the newest change of the manifest."""
    since = world.upgraded_seq
    if since and (mail.seq < since or cell.last_seq < since or _is_strange(workflow, mail)):
        return True
    return cell.state_hash is not None and cell.state_version != workflow.state_version


def _is_strange(workflow: Workflow, mail: Mail) -> bool:
    """True for mail as other code takes it: it was sent to a cell that has left its pin since."""
    if mail.hollow():
        return False
    came = mail.fits or mail.schema
    if workflow.arms.get(came) != mail.arm or (mail.arm is None and came != workflow.event_name):
        return True
    # A value in an older shape of its schema looks like one with an explicit key, which then fits.
    return mail.value is not None and mail.event_hash is not None and mail.fits is None


def evolved(older: Older, since: int) -> Evolved | Halted:
    """Carry a delivery over the changes since it and its cell were written; mail if before."""
    world, _, workflow, cell, mail = older
    fits = mail.hollow() or (mail.seq >= since and not _is_strange(workflow, mail))
    fitted = mail if fits else _fitted(older)
    if isinstance(fitted, Halted):
        return fitted
    if cell.state_hash is None:
        return Evolved(None, cell.state_version, fitted, None)
    state = world.state_of(cell)
    assert state is not None, "a cell with a digest has a state"
    if cell.state_version == workflow.state_version:
        newer = _reshaped(workflow, state)
        if isinstance(newer, Halted):
            return newer
        return Evolved(newer, cell.state_version, fitted, None)
    if cell.state_version in workflow.accepts_state_versions:
        return Evolved(state, cell.state_version, fitted, None)
    moved = migrated(older.world, older.catalogue, cell, state)
    if isinstance(moved, Halted):
        return moved
    return Evolved(moved.state, moved.evidence.to, fitted, moved.evidence)


# ---- states -----------------------------------------------------------------------------------


def _reshaped(workflow: Workflow, state: bytes) -> bytes | Halted:
    """A state under the newer shape of its schema: what was added since is null."""
    try:
        return workflow.state.admit_older(state).bytes
    except SchemaMismatch as why:
        return _failed(f"the state does not fit {workflow.state.name}: {why.message}")


# tidy: one step after the other, and each may fail.
def migrated(world: World, catalogue: Catalogue, cell: Cell, state: bytes) -> Moved | Halted:
    """Run the declared migrations, one after the other, up to a version that the workflow takes."""
    workflow = catalogue.workflows[cell.id.workflow]
    ends = (workflow.state_version, *workflow.accepts_state_versions)
    version = cell.state_version
    while version not in ends:
        step = catalogue.migrations.get((workflow.name, version))
        if step is None or step.to <= version:
            return _failed(f"nothing leads from state version {version} to {ends[0]}")
        asked = {
            "workflow": workflow.name,
            "key": cell.id.key or None,
            "from": version,
            "to": step.to,
            "state": state,
        }
        call = (step.module, step.entrypoint, canon.encode(asked), None)
        answer = world.runner.pure(catalogue, *call)
        if isinstance(answer, Halted):
            return Halted(
                MIGRATION_FAILED, f"{step.name}: {answer.message}", answer.fuel, answer.engine
            )
        try:
            state = catalogue.schemas["sys/MigratedState@1"].read(answer).value["state"]
            if step.to == workflow.state_version:
                workflow.state.read(state)
        except (NotCanonical, SchemaMismatch) as why:
            return _failed(f"{step.name} answers what does not fit: {why.message}")
        version = step.to
    assert cell.state_hash is not None, "only a state is migrated"
    after = canon.digest_of(state)
    place = (workflow.name, cell.id.key, cell.state_version, version)
    return Moved(state, StateMigrated(*place, cell.state_hash, after))


def _failed(message: str) -> Halted:
    return Halted(MIGRATION_FAILED, message, 0, _ENGINE)


# ---- mail -------------------------------------------------------------------------------------


def _fitted(older: Older) -> Mail | Halted:
    """Mail that waited across a change, as an event that the workflow takes now."""
    world, _, workflow, _, mail = older
    came = mail.fits or mail.schema
    if came in _SENT:
        # The kernel made it, and its schema never changes: only the tag may be another one.
        if came not in workflow.arms:
            return _lost(f"{workflow.name} has no arm for {came} any more")
        return mail._replace(arm=workflow.arms[came])
    if mail.init is not None:
        first = _reshaped(workflow, mail.init)
        if isinstance(first, Halted):
            return first
        mail = mail._replace(init=first)
    document = world.document(mail)
    found = _upcast(older, came, document)
    if isinstance(found, Halted):
        return found
    value, arm = found
    return mail._replace(
        schema=value.schema.name,
        arm=arm,
        value=value.bytes,
        value_hash=None,
        # What came keeps its name, whatever it is read as.
        event_hash=mail.event_hash or event_hash(mail.schema, document, None),
    )


def _upcast(older: Older, name: str, document: bytes) -> tuple[Admitted, str | None] | Halted:
    """The first of an event's newer versions that the workflow takes, and its arm."""
    world, catalogue, workflow, _, _ = older
    first = name
    while name != workflow.event_name and name not in workflow.arms:
        step = catalogue.upcasts.get(name)
        if step is None:
            return _lost(f"{workflow.name} takes no {first} any more")
        answer = world.runner.pure(catalogue, step.module, step.entrypoint, document, None)
        if isinstance(answer, Halted):
            return _lost(f"{step.name}: {answer.message}")
        name, document = step.to, answer
    try:
        return catalogue.schemas[name].admit_older(document), workflow.arms.get(name)
    except (NotCanonical, SchemaMismatch) as why:
        return _lost(f"what waited does not fit {name}: {why.message}")


def _lost(message: str) -> Halted:
    return Halted(UPCAST_FAILED, message, 0, _ENGINE)
