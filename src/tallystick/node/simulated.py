"""What a change would lead to: every stage, and no record (08 section 13, `simulate`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from tallystick.errors import UnknownName
from tallystick.kernel.world import World
from tallystick.node.inquiry import stand_of
from tallystick.node.node import Node
from tallystick.node.workspaces import Kept
from tallystick.reactions import guards, ids, keys
from tallystick.reactions.decide import decide, trigger_fingerprint
from tallystick.reactions.document import Definition, definition_of
from tallystick.reactions.facts import facts_of
from tallystick.reactions.observation import Observation
from tallystick.reactions.tree import Tree, TreeNode, shown, with_changes
from tallystick.reactions.triggers import derive
from tallystick.values import canon
from tallystick.views import workspaces

_FRESH_LANE: dict[str, Any] = {
    "last_outcome": None,
    "last_input_digest": None,
    "starts": [],
    "failures_in_row": 0,
    "spent": [],
    "waiting": [],
    "active": {},
    "cool_until_ns": 0,
    "cool_print": None,
    "breaker": {"state": "closed", "until_ns": 0, "probe": None},
}


# tidy: one observation, all of its fields.
async def simulate(node: Node, kept: Kept, name: str, path: bytes) -> dict[str, Any]:
    """Every stage that an external change of a path would pass for one reaction."""
    stand = await stand_of(node, kept)
    definition = await _definition(node, kept, stand.body, name)
    before, after = _as_if_changed(stand.tree, path)
    seen = Observation(
        world_id=kept.world,
        workspace_id=kept.workspace_id,
        n=stand.body["n"] + 1,
        observed_at=node.clock.now_ns(),
        before=before,
        after=after,
        definitions=[definition],
        stamps=stand.view.stamps,
        heads=stand.view.place(kept.workspace_id).heads,
        folding=kept.folding,
    )
    derived = derive(seen)
    rows: list[dict[str, Any]] = [
        {"stage": 1, "name": "compare", "result": f"{shown(path)} modified"}
    ]
    rows += [_stage(3, row["outcome"], row) for row in derived.outcomes]
    if not derived.triggers and not derived.outcomes:
        rows.append({"stage": 3, "name": "derive", "result": "no trigger: no glob means this path"})
    blobs = {canon.hash_of(data): data for data in derived.blobs}
    for trigger in derived.triggers:
        trusted = stand.body["follow"] or definition.hash in stand.body["pins"]
        judge = _Judge(definition, {**trigger, "trusted": trusted}, blobs, node.clock.now_ns())
        rows += await node.look(kept.world, partial(_judged, judge))
    return {"reaction": name, "path": shown(path), "stages": rows}


def _stage(stage: int, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    code = "" if row["code"] is None else f"({row['code']})"
    return {"stage": stage, "name": "derive", "result": f"{name}{code}"}


def _as_if_changed(tree: Tree, path: bytes) -> tuple[Tree, Tree]:
    """Two trees that differ by that path: it has other bytes, or is new."""
    found = tree.get(path)
    other = TreeNode("f", ids.content_id(b"simulated"), 9)
    if found is None:
        return tree, with_changes(tree, {path: other})
    return with_changes(tree, {path: other}), tree


async def _definition(node: Node, kept: Kept, body: Mapping[str, Any], name: str) -> Definition:
    held = body["reactions"].get(name)
    data = None
    if held is not None:
        digest = ids.raw(held["blob"])
        data = await node.read(lambda reader: reader.blob(kept.world, digest))
    if data is None:
        raise UnknownName(f"no reaction {name}", code="reaction.unknown", where={"reaction": name})
    return definition_of(data)


class _Judge(NamedTuple):
    """Stages 4 to 8 of one trigger, as its lane would judge it now."""

    definition: Definition
    trigger: Mapping[str, Any]
    blobs: Mapping[str, bytes]
    now_ns: int


# tidy: one row for each stage.
def _judged(judge: _Judge, world: World) -> list[dict[str, Any]]:
    manifest = canon.decode(judge.blobs[judge.trigger["inputs"]])
    definition, trigger, _, now_ns = judge
    lane = workspaces.lane_body(world, trigger["target"]["target_id"]) or _FRESH_LANE
    run_key = keys.run_key(
        definition.hash, trigger_fingerprint(definition, trigger), trigger["target"]["target_id"]
    )
    cooling = guards.is_cooling(lane, trigger, now_ns)
    earlier = workspaces.run_body(world, run_key)
    tripped = lane["breaker"]["state"] == "open" or guards.is_tripped(definition, lane, now_ns)
    facts = facts_of(
        definition,
        trigger,
        manifest,
        {**lane, "queued": 0, "active": 0, "evaluations": 0, "tripped": tripped, "expired": False},
        {"time": now_ns, "seq": world.seq},
    )
    decision = decide(definition, trigger, facts, None)
    last = None if earlier is None or not earlier["attempts"] else earlier["attempts"][-1]
    return [
        {"stage": 4, "name": "trust, depth, lineage", "result": _refusing(facts["guards"])},
        {"stage": 5, "name": "cooldown", "result": "cooled_down" if cooling else "passes"},
        {"stage": 5, "name": "run key", "result": "new" if last is None else last["state"]},
        {"stage": 6, "name": "breaker", "result": "breaker_open" if tripped else "closed"},
        {
            "stage": 7,
            "name": "policy",
            "result": f"{decision['outcome']}: "
            + ", ".join(reason["code"] for reason in decision["reasons"]),
        },
        {"stage": 8, "name": "mode", "result": definition["mode"]["kind"]},
    ]


def _refusing(facts: Mapping[str, bool]) -> str:
    return ", ".join(sorted(name for name, refuses in facts.items() if refuses)) or "passes"
