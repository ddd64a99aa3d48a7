"""Triggers and decisions computed again from what is recorded: the same, or a word of it (F-07)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tallystick.errors import UnknownName
from tallystick.node.inquiry import tree_of
from tallystick.node.node import Node
from tallystick.reactions import guards, ids, runs
from tallystick.reactions.decide import decide
from tallystick.reactions.document import definition_of
from tallystick.reactions.observation import Derived, Observation, Request
from tallystick.reactions.tree import Tree, unshown
from tallystick.reactions.triggers import UNNAMED, derive
from tallystick.values import canon
from tallystick.views import workspaces
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
    made = await _again(Trees(node, world), trigger, past)
    wanted = trigger["trigger_id"]
    return {"trigger_id": wanted, "recomputed": made, "same": wanted in made, "trigger": trigger}


class Trees:
    """The trees of a world by their ids; the last few are kept, for one look has two of them."""

    MOST: Final = 4

    def __init__(self, node: Node, world: str) -> None:
        self.node = node
        self.world = world
        self._held: dict[str, Tree] = {}
        # All triggers of one look are derived together, whatever their targets.
        self.key: Any = None
        self.made: list[dict[str, Any]] = []
        self.blobs: dict[str, bytes] = {}

    def keep(self, key: Any, derived: Derived) -> None:
        """Keep what one look gives."""
        self.key, self.made = key, derived.triggers
        self.blobs = {canon.hash_of(data): data for data in derived.blobs}

    async def of(self, root: str) -> Tree:
        """A tree, from memory or from the store."""
        found = self._held.pop(root, None)
        if found is None:
            found = await tree_of(self.node, self.world, root)
        self._held[root] = found
        if len(self._held) > self.MOST:
            del self._held[next(iter(self._held))]
        return found

    async def blob(self, name: str) -> bytes:
        """The bytes of a hash that records name."""
        found = await self.node.read(lambda reader: reader.blob(self.world, ids.raw(name)))
        assert found is not None, "what a trigger names is in the store"
        return found


async def _again(trees: Trees, trigger: Mapping[str, Any], past: Reactive) -> list[str]:
    """The ids of the triggers for its target that are derived of what one was derived of."""
    manifest = canon.decode(await trees.blob(trigger["inputs"]))
    asked = canon.encode([trigger["definition_hash"], trigger["kind"], trigger["command"]])
    copied = "derived_copy" in trigger["flags"]
    key = (trigger["workspace_id"], trigger["observed_n"], asked, copied)
    if trees.key != key:
        seen = await _recorded(trees, trigger, (past, manifest))
        trees.keep(key, await asyncio.to_thread(derive, seen))
    wanted = trigger["target"]["target_id"]
    rows = [row for row in trees.made if row["target"]["target_id"] == wanted]
    return [_resized(row, canon.decode(trees.blobs[row["inputs"]]), manifest) for row in rows]


# tidy: one pass over all that is recorded.
async def replay_all(node: Node, world: str) -> dict[str, Any]:
    """Every trigger, decision, run and stamp computed again from records, in one pass (RX-06).

    `first` names the first that comes out otherwise; None when all are the same.
    """
    projected = node.watching.projected
    view = await projected.now(world)
    upto, stamps = view.seq, view.stamps.entries()
    triggers = sorted(
        (_stamps_at(view, n.value), n.value["definition_hash"], key)
        for key, n in view.triggers.items()
    )
    decisions = list(view.decisions)
    rows = {key: noted.value for key, noted in view.triggers.items()}
    trees, past = Trees(node, world), Reactive()
    wrong: list[dict[str, str]] = []
    for seq, _, key in triggers:
        await projected.follow(past, world, seq)
        if key not in await _again(trees, rows[key], past):
            wrong.append({"kind": "trigger", "id": key})
    wrong += [
        {"kind": "decision", "id": decision_id}
        for decision_id in decisions
        if not (await replay_decision(node, world, decision_id))["same"]
    ]
    attempts = await node.look(world, workspaces.attempts)
    ended = {key: row for key, row in attempts.items() if guards.is_terminal(row)}
    wrong += [
        {"kind": "run", "id": key}
        for key, row in ended.items()
        if runs.run_root(row) != row["run_root"]
    ]
    await projected.follow(past, world, upto)
    if past.stamps.entries() != stamps:
        wrong.append({"kind": "stamps", "id": world})
    counts = {"triggers": len(triggers), "decisions": len(decisions), "runs": len(ended)}
    counts |= {"stamps": len(stamps), "records": upto}
    return {"same": not wrong, **counts, "first": wrong[0] if wrong else None}


def _stamps_at(view: Reactive, trigger: Mapping[str, Any]) -> int:
    return view.place(trigger["workspace_id"]).stamps_at[trigger["observed_n"]]


def _starting(view: Reactive, name: str) -> Any:
    found = [n for key, n in view.triggers.items() if key.partition(":")[2].startswith(name)]
    return found[0] if len(found) == 1 and len(name) >= 6 else None


# tidy: one observation, all of its fields.
async def _recorded(
    trees: Trees, trigger: Mapping[str, Any], known: tuple[Reactive, Mapping[str, Any]]
) -> Observation:
    """The observation behind a trigger, as the journal has it."""
    past, manifest = known
    data = await trees.blob(trigger["definition_hash"])
    before = trigger["tree_before"]
    place = past.place(trigger["workspace_id"])
    moved, _ = place.waiting()
    after = await trees.of(trigger["tree_after"])
    kept = trees.node.watching.workspaces.rows.get((trees.world, trigger["workspace_id"]))
    made = Observation(
        world_id=trees.world,
        workspace_id=trigger["workspace_id"],
        n=trigger["observed_n"],
        observed_at=trigger["observed_at"],
        before=None if before is None else await trees.of(before),
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
