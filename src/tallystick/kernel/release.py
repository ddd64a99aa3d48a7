"""Release: a held intent goes out, if authority still says yes (06 section 1).

The capability and the policy are asked again, under the manifest and at the time of the release:
what was revoked or forbidden while an intent waited is denied, not published.
"""

from __future__ import annotations

from typing import Final

from tallystick.authority.denial import Denial
from tallystick.kernel import internal, receipts
from tallystick.kernel.admit import Asking, Case, Opened, judge_again
from tallystick.kernel.capacity import levels_of, tight_in
from tallystick.kernel.draft import Draft
from tallystick.kernel.fold_flows import QUEUED
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.parts import Intent, is_unsent
from tallystick.kernel.pins import workflow_of
from tallystick.model.abi import EffectRequest
from tallystick.model.catalogue import Effect
from tallystick.model.cells import CellId
from tallystick.model.records import IntentReleased, Stamp
from tallystick.values.schema import Admitted

_ASKED: Final = "require_approval"  # what a rule decided that left it to people


# tidy: authority, room and what is done at once are asked in this order.
def let_go(draft: Draft, intent: Intent, cause: str, stamp: Stamp | None) -> None:
    """Release an intent, or deny it; an internal effect is performed in the same frame.

    What people approved still needs room, as does what a fork took out of a queue: without any it
    goes on to wait for it.
    """
    record = intent.record
    effect = draft.world.catalogue(intent.manifest).effects[record.effect]
    params = _params(draft, intent, effect)
    now_ns = draft.world.logical_ns + 1 if stamp is None else stamp.logical_ns
    asking = _asking(draft, intent, now_ns)
    judged = record.judged
    assert judged.capability is not None, "an open intent was judged by a grant"
    assert judged.policy is not None, "and by a rule"
    wanted = EffectRequest(record.effect, params, cap_slot=judged.capability.slot)
    case = Case(draft, asking, record.origin.index, wanted)
    said = judge_again(case, effect, params, approved=judged.policy.decision == _ASKED)
    # The first record of a frame carries its stamp, whichever it is.
    mark = None if draft.records else stamp
    if isinstance(said, Denial):
        receipts.deny(draft, record, said, mark)
        return
    kind, unsent = intent.hold["kind"], is_unsent(intent.hold)
    if unsent and kind != "capacity" and _is_tight(draft, intent, now_ns):
        draft.add(IntentReleased(record.intent, kind, QUEUED, mark))
        return
    draft.add(IntentReleased(record.intent, kind, cause, mark))
    draft.opened[record.intent] = record
    # What went out before a fork was performed then: a call waits for its child by now.
    if unsent and record.effect in internal.ACTIONS:
        opened = Opened(record.intent, effect, params, record.issuer_ref)
        internal.perform(draft, asking, opened)


def _is_tight(draft: Draft, intent: Intent, now_ns: int) -> bool:
    record = intent.record
    flows = draft.world.active.flows
    return bool(tight_in(levels_of(draft), flows, record.flow or (), (record.origin, now_ns)))


def _asking(draft: Draft, intent: Intent, logical_ns: int) -> Asking:
    origin = intent.record.origin
    cell = draft.world.cell(CellId(origin.workflow, origin.key))
    assert cell is not None, "an open intent has a cell"
    return Asking(cell, workflow_of(draft.world, cell), origin.tick_seq, logical_ns)


def _params(draft: Draft, intent: Intent, effect: Effect) -> Admitted:
    data = intent.record.params
    if data is None:
        assert intent.record.params_hash is not None, "parameters stand inline or by digest"
        data = read_blob(draft.world.blobs, intent.record.params_hash)
    return effect.params.read(data)
