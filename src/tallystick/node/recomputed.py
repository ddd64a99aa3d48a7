"""Triggers and decisions computed again from what is recorded: the same, or a word of it (F-07)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tallystick.errors import UnknownName
from tallystick.node.inquiry import tree_of
from tallystick.node.node import Node
from tallystick.reactions import guards, ids
from tallystick.reactions.decide import decide
from tallystick.reactions.document import definition_of
from tallystick.reactions.observation import Observation, Request
from tallystick.reactions.tree import Tree, unshown
from tallystick.reactions.triggers import UNNAMED, derive
from tallystick.values import canon
from tallystick.views.reactive import Reactive


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


# tidy: one observation, all of its fields.
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


def _resized(made: Mapping[str, Any], again: Mapping[str, Any], recorded: Mapping[str, Any]) -> str:
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
