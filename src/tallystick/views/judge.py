"""A made-up request, judged by the very stages that judge real ones; nothing is recorded."""

from __future__ import annotations

from typing import Any, NamedTuple

from tallystick.errors import SchemaMismatch, UnknownName
from tallystick.kernel.admit import Asking, Case, judge
from tallystick.kernel.draft import Draft
from tallystick.kernel.parts import Cell
from tallystick.kernel.world import World
from tallystick.model.abi import EffectRequest
from tallystick.model.cells import CellId
from tallystick.model.records import IntentDenied, IntentOpened
from tallystick.values import canon
from tallystick.values.schema import Admitted
from tallystick.views.shown import key_bytes
from tallystick.views.waiting import trail


class Question(NamedTuple):
    """A workflow that would ask for an effect with these params."""

    workflow: str
    effect: str
    params: Any
    key: str = "-"
    cap_slot: str | None = None


def judged(world: World, question: Question) -> dict[str, Any]:
    """What admission would say to it now: open, held, or denied at which stage and why."""
    workflow = world.active.catalogue.workflows.get(question.workflow)
    if workflow is None:
        raise UnknownName(
            f"no workflow {question.workflow} in the active manifest",
            code="workflow.unknown",
            where={"workflow": question.workflow},
        )
    ident = CellId(question.workflow, _key(workflow, question.key))
    cell = world.cell(ident) or Cell(ident, world.seq + 1)
    asking = Asking(cell, workflow, world.seq + 1, world.logical_ns + 1)
    draft = Draft(world)
    wanted = EffectRequest(question.effect, _params(world, question), None, None, question.cap_slot)
    judge(Case(draft, asking, 0, wanted))
    found = draft.records[-1]
    assert isinstance(found, IntentOpened | IntentDenied), "a request opens or is denied"
    denied = isinstance(found, IntentDenied)
    hold = None if isinstance(found, IntentDenied) else found.hold
    return {
        "workflow": question.workflow,
        "effect": question.effect,
        "decision": "deny" if denied else "allow" if hold is None else "hold",
        "code": found.code if isinstance(found, IntentDenied) else None,
        "message": found.message if isinstance(found, IntentDenied) else None,
        "hold": hold,
        "judged": trail(found),
        "as_of": world.seq,
    }


def _key(workflow: Any, text: str) -> bytes:
    """The key; a keyed workflow that is asked about without one has a new cell."""
    if workflow.key is not None and text == "-":
        return b""
    return key_bytes(workflow, text)


def _params(world: World, question: Question) -> bytes | Admitted:
    """The params as JSON spells them; what does not fit is left to the stage that says so."""
    effect = world.active.catalogue.effects.get(question.effect)
    if effect is not None:
        try:
            return effect.params.admit(question.params, "sugar")
        except SchemaMismatch:
            pass  # the stage `shape` tells what is wrong with it
    return canon.encode(question.params)
