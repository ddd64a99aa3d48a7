"""The first frame of a world that was restored from a backup (04 section 13, I43).

What settled after the backup is not known here, so every open intent is held until somebody
releases it; the node that restored it has another key, which is trusted from now on.
"""

from __future__ import annotations

from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.inputs import Sample
from tallystick.kernel.world import World
from tallystick.model.records import KeyTrusted, WorldRestored
from tallystick.values.seal import key_id_of

NODE = "node"


def restored(world: World, sample: Sample, backup: str, node_key: bytes) -> Frame:
    """Record that a world comes from a backup, and trust the node that has it now."""
    draft = Draft(world)
    draft.add(WorldRestored(backup, world.head, NODE, draft.stamp(sample)))
    key = key_id_of(node_key)
    if key not in world.keys:
        draft.add(KeyTrusted(key, node_key, ["*"], ["*"], NODE, None))
    return draft.frame(Answer("restored", world.seq + 1))
