"""Questions about reactions that need the journal, the live world and the disk together.

Nothing here writes: a simulation, a recomputed trigger or decision leaves no record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tallystick.errors import UnknownName
from tallystick.kernel.world import World
from tallystick.node.node import Node
from tallystick.node.watch_disk import Disk
from tallystick.node.workspaces import Kept
from tallystick.reactions import guards, ids, keys
from tallystick.reactions.decide import decide, trigger_fingerprint
from tallystick.reactions.document import Definition, definition_of
from tallystick.reactions.facts import facts_of
from tallystick.reactions.heads import bare_id
from tallystick.reactions.observation import Observation, Request
from tallystick.reactions.tree import EMPTY, Tree, TreeNode, load, shown, unshown, with_changes
from tallystick.reactions.triggers import UNNAMED, derive
from tallystick.values import canon
from tallystick.views import workspaces
from tallystick.views.reactive import Reactive
from tallystick.views.why import Asked, why

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


class Stand(NamedTuple):
    """How far the journal has come with a workspace."""

    body: Mapping[str, Any]
    tree: Tree
    view: Reactive


async def stand_of(node: Node, kept: Kept) -> Stand:
    """The journaled tree of a workspace, and the projection with it."""
    body = await node.look(
        kept.world, lambda world: workspaces.workspace_body(world, kept.workspace_id)
    )
    lookout = node.watching.lookouts.get(kept.workspace_id)
    if lookout is not None and lookout.known and lookout.n == body["n"]:
        tree = lookout.watcher.known
    elif body["tree"] is None:
        tree = EMPTY
    else:
        tree = await tree_of(node, kept.world, body["tree"]["blob"])
    return Stand(body, tree, await node.watching.projected.now(kept.world))


async def tree_of(node: Node, world: str, root: str) -> Tree:
    """A tree by its id, from the store; sizes are not in it."""
    return await node.read(
        lambda reader: load(ids.raw(root), lambda digest: reader.blob(world, digest))
    )


async def why_path(node: Node, kept: Kept, path: bytes) -> dict[str, Any]:
    """Why a file of the disk is as it is."""
    view = await node.watching.projected.now(kept.world)
    attempts = await node.look(kept.world, workspaces.attempts)
    content = content_on_disk(kept, path)
    return why(view, attempts, Asked(kept.workspace_id, path, content))


def content_on_disk(kept: Kept, path: bytes) -> str | None:
    """The content id of a file as it is now; None when there is no plain file."""
    disk = Disk(kept.folder)
    above, _, name = path.rpartition(b"/")
    entries = disk.entries(above) or []
    entry = next((each for each in entries if each.name == name), None)
    digest = None if entry is None else disk.content(path, entry)
    return None if digest is None else ids.text(digest)


async def basis_of(node: Node, kept: Kept, path: bytes) -> dict[str, Any]:
    """What a frame about a place rests on: its node, and that without our own outputs."""
    stand = await stand_of(node, kept)
    found = stand.tree.get(path)
    if found is None:
        raise UnknownName(
            f"{shown(path)} is not in the workspace",
            code="frame.no_place",
            where={"path": shown(path)},
            hint="scan first, or name a file or directory that is not ignored",
        )
    node_id = ids.node_id(kept.workspace_id, path, found.kind, found.identity)
    bare = bare_id(stand.tree, path, kept.workspace_id, stand.view.stamps)
    return {"node_id": ids.text(node_id), "bare_id": bare, "frames": []}


# ---- simulation -----------------------------------------------------------------------------


async def simulate(
    node: Node, kept: Kept, name: str, path: bytes
) -> dict[str, Any]:
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
    rows = [{"stage": 1, "name": "compare", "result": f"{shown(path)} modified"}]
    rows += [_stage(3, row["outcome"], row) for row in derived.outcomes]
    if not derived.triggers and not derived.outcomes:
        rows.append({"stage": 3, "name": "derive", "result": "no trigger: no glob means this path"})
    blobs = {canon.hash_of(data): data for data in derived.blobs}
    for trigger in derived.triggers:
        trusted = stand.body["follow"] or definition.hash in stand.body["pins"]
        offered = {**trigger, "trusted": trusted}
        manifest = canon.decode(blobs[trigger["inputs"]])
        rows += await node.look(
            kept.world, lambda world, o=offered, m=manifest: _judged(world, definition, o, m, node)
        )
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


async def _definition(
    node: Node, kept: Kept, body: Mapping[str, Any], name: str
) -> Definition:
    held = body["reactions"].get(name)
    data = None
    if held is not None:
        digest = ids.raw(held["blob"])
        data = await node.read(lambda reader: reader.blob(kept.world, digest))
    if data is None:
        raise UnknownName(
            f"no reaction {name}", code="reaction.unknown", where={"reaction": name}
        )
    return definition_of(data)


def _judged(
    world: World,
    definition: Definition,
    trigger: Mapping[str, Any],
    manifest: Mapping[str, Any],
    node: Node,
) -> list[dict[str, Any]]:
    """Stages 4 to 8 of one trigger, as the lane would judge it now."""
    now_ns = node.clock.now_ns()
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


# ---- recomputing ----------------------------------------------------------------------------


async def replay_trigger(node: Node, world: str, trigger_id: str) -> dict[str, Any]:
    """Derive a trigger again from recorded hashes; `same` says whether its id came out (F-07)."""
    view = await node.watching.projected.now(world)
    noted = view.triggers.get(trigger_id) or _starting(view, trigger_id)
    if noted is None:
        raise UnknownName(
            f"no trigger {trigger_id}", code="trigger.unknown", where={"trigger": trigger_id}
        )
    trigger = noted.value
    seq = view.place(trigger["workspace_id"]).stamps_at[trigger["observed_n"]]
    past = await node.watching.projected.past(world, seq)
    data = await node.read(lambda reader: reader.blob(world, ids.raw(trigger["inputs"])))
    assert data is not None, "the manifest of a trigger is in the store"
    manifest = canon.decode(data)
    seen = await _recorded(node, world, trigger, (past, manifest))
    made = derive(seen)
    blobs = {canon.hash_of(data): data for data in made.blobs}
    ids_ = [_resized(row, canon.decode(blobs[row["inputs"]]), manifest) for row in made.triggers]
    wanted = trigger["trigger_id"]
    return {"trigger_id": wanted, "recomputed": ids_, "same": wanted in ids_, "trigger": trigger}


def _starting(view: Reactive, name: str) -> Any:
    found = [n for key, n in view.triggers.items() if key.partition(":")[2].startswith(name)]
    return found[0] if len(found) == 1 and len(name) >= 6 else None


async def _recorded(
    node: Node, world: str, trigger: Mapping[str, Any], known: tuple[Reactive, Mapping[str, Any]]
) -> Observation:
    """The observation behind a trigger, as the journal has it."""
    past, manifest = known
    digest = ids.raw(trigger["definition_hash"])
    data = await node.read(lambda reader: reader.blob(world, digest))
    assert data is not None, "a definition that was offered is in the store"
    before = trigger["tree_before"]
    place = past.place(trigger["workspace_id"])
    moved, _ = place.waiting()
    after = await tree_of(node, world, trigger["tree_after"])
    kept = node.watching.workspaces.rows.get(trigger["workspace_id"])
    made = Observation(
        world_id=world,
        workspace_id=trigger["workspace_id"],
        n=trigger["observed_n"],
        observed_at=trigger["observed_at"],
        before=None if before is None else await tree_of(node, world, before),
        after=after,
        definitions=[definition_of(data)],
        stamps=past.stamps,
        heads=place.heads,
        flags=tuple(flag for flag in trigger["flags"] if flag != "derived_copy"),
        git_commit=manifest["git_commit"],
        moved=moved if trigger["frame"] is not None else (),
        commands=() if trigger["command"] is None else [_asked_for(trigger)],
        due=(trigger["reaction"],) if trigger["kind"] == "schedule" else (),
        folding=kept is not None and kept.folding,
    )
    return made if "derived_copy" not in trigger["flags"] else replace(made, after=_sized(after))


def _sized(tree: Tree) -> Tree:
    """Large enough to be a copy: sizes are not recorded, but that it was one is."""
    return {path: node._replace(size=guards.COPY_BYTES_MIN) for path, node in tree.items()}


def _asked_for(trigger: Mapping[str, Any]) -> Request:
    command = trigger["command"]
    external = trigger["cause"] == "external"
    cause = {
        "cause": trigger["cause"],
        "actor": trigger["actor"],
        "depth": trigger["depth"],
        "lineage": trigger["lineage"],
        "root": trigger["root_trigger_id"],
        "writer": trigger["writer"],
    }
    return Request(
        trigger["reaction"],
        unshown(trigger["target"]["path"]),
        name=command["name"],
        args=command["args"],
        key=command["key"],
        actor=trigger["actor"],
        cause=None if external else cause,
    )


def _resized(
    made: Mapping[str, Any], again: Mapping[str, Any], recorded: Mapping[str, Any]
) -> str:
    """The id of a recomputed trigger; the size of its target is a fact that only records have."""
    size = recorded["node"]["size"]
    manifest = canon.encode({**again, "node": {**again["node"], "size": size}})
    named = {key: value for key, value in made.items() if key not in UNNAMED}
    return ids.text(ids.H("trigger@1", **{**named, "inputs": canon.hash_of(manifest)}))


async def replay_decision(node: Node, world: str, decision_id: str) -> dict[str, Any]:
    """Decide again from the recorded facts; `same` says whether the id came out (P5)."""
    view = await node.watching.projected.now(world)
    noted = view.decisions.get(decision_id)
    if noted is None:
        raise UnknownName(
            f"no decision {decision_id}",
            code="decision.unknown",
            where={"decision": decision_id},
        )
    decision = noted.value
    trigger = view.triggers[decision["trigger_id"]].value

    def read(reader: Any) -> tuple[bytes | None, bytes | None]:
        facts = reader.blob(world, ids.raw(decision["evaluated_facts"]))
        return facts, reader.blob(world, ids.raw(decision["workflow_definition_id"]))

    facts, definition = await node.read(read)
    assert facts is not None, "the facts of a decision are in the store"
    assert definition is not None, "the definition of a decision is in the store"
    again = decide(
        definition_of(definition), trigger, canon.decode(facts), decision["previous_decision_id"]
    )
    return {
        "decision_id": decision["decision_id"],
        "recomputed": again["decision_id"],
        "same": again["decision_id"] == decision["decision_id"],
        "decision": decision,
        "facts": canon.decode(facts),
    }
