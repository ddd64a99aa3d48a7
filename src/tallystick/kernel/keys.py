"""Explicit keys: asked again, an intent attaches to what is open or is told what was (D8).

The parameters must be those of the first time, as the effect takes them now.
"""

from __future__ import annotations

from hashlib import sha256

from tallystick.authority.denial import Denial
from tallystick.errors import SchemaMismatch
from tallystick.kernel.draft import Draft
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.parts import Cell
from tallystick.model.catalogue import Workflow
from tallystick.model.records import IntentOpened
from tallystick.values.schema import Admitted


def asked_before(
    draft: Draft, cell: Cell, workflow: Workflow, intent: bytes, params: Admitted
) -> bool | Denial:
    """True when the key attaches; a denial when it was used with other parameters (D8)."""
    known = draft.opened.get(intent)
    if known is not None:
        same = (known.params_hash or sha256(known.params or b"").digest()) == params.digest
    else:
        entry = draft.world.keyed.get(intent)
        if entry is None:
            most = workflow.limits.keys_max
            fresh = [r for r in draft.opened.values() if r.idempotency_key is not None]
            if len(cell.keyed) + len(fresh) >= most:
                message = f"the cell remembers {most} keys already"
                return Denial("shape", "effect.key_capacity", message)
            return False
        same = entry.params_digest() == params.digest or _is_older(draft, entry.opened, params)
    if not same:
        message = "this idempotency key was used with other parameters"
        return Denial("shape", "effect.key_conflict", message)
    return True


def _is_older(draft: Draft, opened: IntentOpened, params: Admitted) -> bool:
    """True for parameters of before an upgrade that mean the same under their newer shape."""
    data = opened.params
    if data is None:
        assert opened.params_hash is not None, "parameters stand inline or by digest"
        data = read_blob(draft.world.blobs, opened.params_hash)
    try:
        return params.schema.admit_older(data).bytes == params.bytes
    except SchemaMismatch:
        return False
