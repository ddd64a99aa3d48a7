"""From two trees to triggers: every change ends in an envelope or in a named outcome (08 s. 6).

Theory of operation.
For each reaction the changes that it watches are sorted: those it ignores, its own writes and
outputs, outputs of others that it did not ask for (each an outcome), then outputs it did ask for
and copies of outputs (derived, one level deeper), and the rest, which is external.
External and derived changes of one look make separate triggers, external first, so that a loop can
never delay a person's edit.
The same values give the same envelopes, on any host, at any time (F-07).
"""

# tidy: from a change to its envelope, one trail.
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tallystick.reactions import guards, ids, scopes
from tallystick.reactions.document import Definition
from tallystick.reactions.heads import Head
from tallystick.reactions.inputs import Inputs, inputs_of
from tallystick.reactions.observation import Derived, Observation, Request
from tallystick.reactions.stamps import Stamp
from tallystick.reactions.tree import (
    DIRECTORY,
    EMPTY,
    Change,
    TreeNode,
    ancestors,
    compare,
    name_of,
    shown,
    tree_id,
)
from tallystick.values import canon

CHANGES_MAX: Final = 256
PATHS_MAX: Final = 32
# Not under the id of a trigger: what follows from it, and what is only known later.
UNNAMED: Final = (
    "trigger_id",
    "root_trigger_id",
    "trusted",
    "cooldown_remaining_ms",
    "coalesced",
)
EXTERNAL_ACTOR: Final = {"kind": "external", "id": ""}


class Cause(NamedTuple):
    """What led to a trigger, and how deep the chain is."""

    cause: str
    actor: Mapping[str, str]
    depth: int
    lineage: list[str]
    root: str | None
    writer: Mapping[str, str] | None
    flags: tuple[str, ...] = ()


_OUTSIDE: Final = Cause("external", EXTERNAL_ACTOR, 0, [], None, None)


class Sorted:
    """The changes of one reaction over one target, by what they mean to it."""

    def __init__(self) -> None:
        self.external: list[Change] = []
        self.derived: list[tuple[Change, Stamp]] = []
        self.copied = False


def derive(seen: Observation) -> Derived:
    """Every trigger and outcome of one look at a workspace."""
    made = _Making(seen)
    changes = compare(EMPTY if seen.before is None else seen.before, seen.after, seen.folding)
    outside: list[dict[str, Any]] = []
    inside: list[dict[str, Any]] = []
    for definition in seen.definitions:
        if not definition["enabled"]:
            continue
        if seen.before is not None or definition["on_first_scan"]:
            for target, found in made.sort(definition, changes).items():
                if found.external:
                    outside.append(made.changed(definition, target, found.external, None))
                if found.derived:
                    inside.append(made.generated(definition, target, found))
        for head in seen.moved:
            trigger = made.frame(definition, head)
            if trigger is not None:
                (inside if trigger["depth"] else outside).append(trigger)
        if definition.name in seen.due:
            outside += made.due(definition)
    for command in seen.commands:
        outside += made.command(command)
    return Derived([*outside, *inside], made.told(), list(made.blobs.values()))


# ---- targets --------------------------------------------------------------------------------


def watched(
    definition: Definition, entry: Mapping[str, Any], path: bytes, seen: Observation
) -> Iterator[bytes]:
    """The targets for which a trigger entry means a path."""
    for target in _near(definition, path, seen):
        if scopes.means(scopes.below(definition, entry["files"], target), path) is not None:
            yield target


def _near(definition: Definition, path: bytes, seen: Observation) -> Iterable[bytes]:
    """The targets that hold a path; all of them, where none does and a glob leads elsewhere."""
    kind, match = definition["target"]["kind"], definition["target"]["match"]
    if kind == "workspace":
        return (b"",)
    holding = [path] if kind == "file" else list(ancestors(path))
    near = [at for at in holding if at and scopes.means((match,), at) is not None]
    return near or targets(definition, seen)


def targets(definition: Definition, seen: Observation) -> list[bytes]:
    """Every target that a definition has in the tree after the observation."""
    kind, match = definition["target"]["kind"], definition["target"]["match"]
    if kind == "workspace":
        return [b""]
    return [
        path
        for path, node in sorted(seen.after.items())
        if path
        and (node.kind == DIRECTORY) == (kind == "directory")
        and scopes.means((match,), path) is not None
    ]


# ---- sorting and making ---------------------------------------------------------------------


class _Making:
    """The envelopes and outcomes of one observation."""

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.blobs: dict[str, bytes] = {}
        self._outcomes: dict[tuple[str, str, str, str | None, str], list[str]] = {}
        self._inputs: dict[tuple[str, bytes, bytes], Inputs] = {}

    def sort(self, definition: Definition, changes: Sequence[Change]) -> dict[bytes, Sorted]:
        """The changes that a reaction watches, by target."""
        found: dict[bytes, Sorted] = {}
        entries = [entry for entry in definition["on"] if "files" in entry]
        for change in changes if entries or definition["heal"] else ():
            met: dict[bytes, bool] = {}
            for entry in entries:
                if change.change in entry["changes"]:
                    for target in watched(definition, entry, change.path, self.seen):
                        met[target] = met.get(target, False) or guards.takes_generated(entry)
            if definition["heal"] and change.after is None:
                met.update(dict.fromkeys(self._lost(definition, change.path), False))
            for target, generated in met.items():
                self._judge(definition, target, (change, generated), found)
        return found

    def _lost(self, definition: Definition, path: bytes) -> Iterator[bytes]:
        """The targets whose output is gone."""
        if guards.is_own_output(definition, (self.seen.workspace_id, path), self.seen.stamps):
            for target in targets(definition, self.seen):
                writes = scopes.below(definition, definition["writes"]["files"], target)
                if scopes.means(writes, path) is not None:
                    yield target

    # tidy: the order of the questions is the rule.
    def _judge(
        self,
        definition: Definition,
        target: bytes,
        met: tuple[Change, bool],
        found: dict[bytes, Sorted],
    ) -> None:
        """Stages 2 and 3: put one change where it belongs, or end it with an outcome."""
        change, generated = met
        stamps = self.seen.stamps
        place = (self.seen.workspace_id, change.path)
        after = _content(change.after)
        rule = guards.is_ignored(definition, target, change.path)
        if rule is not None:
            self._end(definition, target, change, ("ignored", rule, "ignore"))
            return
        if guards.is_self(definition, place, after, stamps):
            self._end(definition, target, change, ("self_suppressed", None, "G2"))
            return
        heals = definition["heal"] and change.after is None
        if guards.is_own_output(definition, place, stamps) and not heals:
            self._end(definition, target, change, ("ignored", "own_output", "G3"))
            return
        writer = guards.writer_of(place, after, stamps)
        if writer is not None and writer.reaction != definition.name and not generated:
            self._end(definition, target, change, ("ignored", "generated_output", "G3"))
            return
        sorted_ = found.setdefault(target, Sorted())
        size = 0 if change.after is None else change.after.size
        if writer is None and (
            copy := guards.copied_from(definition, place, (after, size), stamps)
        ):
            sorted_.copied = True
            writer = copy
        if writer is None:
            sorted_.external.append(change)
        else:
            sorted_.derived.append((change, writer))

    def _end(
        self,
        definition: Definition,
        target: bytes,
        change: Change,
        why: tuple[str, str | None, str],
    ) -> None:
        key = (definition.name, shown(target), *why)
        self._outcomes.setdefault(key, []).append(shown(change.path))

    def told(self) -> list[dict[str, Any]]:
        """The outcomes of the stages 2 and 3, one for each reason."""
        return [
            {
                "trigger_id": None,
                "workspace_id": self.seen.workspace_id,
                "reaction": name,
                "target": target,
                "outcome": outcome,
                "code": code,
                "guard": guard,
                "paths": paths[:PATHS_MAX],
                "count": len(paths),
            }
            for (name, target, outcome, code, guard), paths in self._outcomes.items()
        ]

    # ---- kinds of triggers ------------------------------------------------------------------

    def changed(
        self,
        definition: Definition,
        target: bytes,
        changes: Sequence[Change],
        cause: Cause | None,
    ) -> dict[str, Any]:
        """A trigger of changed files."""
        kind = "fs.changed" if cause is None else "reaction.output"
        rows = [_row(change) for change in changes]
        return self._envelope(definition, target, kind, cause or _OUTSIDE, changes=rows)

    def generated(self, definition: Definition, target: bytes, found: Sorted) -> dict[str, Any]:
        """A trigger of outputs of reactions, one level deeper than the deepest of them."""
        depth, lineage, first = guards.derived([stamp for _, stamp in found.derived])
        cause = Cause(
            f"run:{first.run_id}" if first.world is None else f"foreign:{first.world}",
            {"kind": "reaction", "id": first.reaction},
            depth,
            lineage,
            first.root_trigger_id,
            {
                "reaction": first.reaction,
                "run_id": first.run_id,
                "definition_hash": first.definition_hash,
            },
            ("derived_copy",) if found.copied else (),
        )
        return self.changed(definition, target, [change for change, _ in found.derived], cause)

    def frame(self, definition: Definition, head: Head) -> dict[str, Any] | None:
        """A trigger of a moved head, or None when this reaction does not wait for it."""
        if {"frame": head.type} not in definition["on"]:
            return None
        if definition["target"]["kind"] == "workspace":
            target = b""
        elif head.path in targets(definition, self.seen):
            target = head.path
        else:
            return None
        told = head.told
        if told["writer"] is None:
            cause = Cause("external", told["author"], 0, [], None, None)
        elif told["writer"]["reaction"] == definition.name:
            self._outcomes[(definition.name, shown(target), "self_suppressed", None, "G2")] = [
                f"frame {head.type}"
            ]
            return None
        else:
            writer = told["writer"]
            cause = Cause(
                f"run:{writer['run_id']}",
                {"kind": "reaction", "id": writer["reaction"]},
                told["depth"] + 1,
                [*told["lineage"], writer["reaction"]],
                told["root_trigger_id"],
                writer,
            )
        moved = {"type": head.type, "frame_id": told["frame_id"]}
        return self._envelope(definition, target, "context.frame", cause, frame=moved)

    def due(self, definition: Definition) -> list[dict[str, Any]]:
        """The triggers of a schedule: one for each target."""
        cause = _OUTSIDE._replace(actor={"kind": "schedule", "id": definition.name})
        found = targets(definition, self.seen)
        return [self._envelope(definition, target, "schedule", cause) for target in found]

    def command(self, command: Request) -> list[dict[str, Any]]:
        """The trigger of a command, if such a reaction takes one and has that target."""
        asked = {"name": command.name, "args": dict(command.args), "key": command.key}
        cause = _OUTSIDE._replace(actor=dict(command.actor))
        if command.cause is not None:
            cause = Cause(**command.cause)
        return [
            self._envelope(each, command.path, "command", cause, command=asked)
            for each in self.seen.definitions
            if each.name == command.reaction
            and each["enabled"]
            and {"command": True} in each["on"]
            and command.path in targets(each, self.seen)
        ]

    # tidy: one envelope, all of its fields.
    def _envelope(
        self, definition: Definition, target: bytes, kind: str, cause: Cause, **more: Any
    ) -> dict[str, Any]:
        seen = self.seen
        command = more.get("command")
        inputs = self._inputs_of(definition, target, command["args"] if command else {})
        self.blobs[inputs.hash] = inputs.data
        self.blobs.update(seen.earlier.lacking(definition.name, inputs.pages))
        changes = more.get("changes", [])
        changes_ref = None
        if len(changes) > CHANGES_MAX:
            data = canon.encode({"$type": "changes@1", "changes": changes})
            changes_ref = canon.hash_of(data)
            self.blobs[changes_ref] = data
        target_kind = definition["target"]["kind"]
        made: dict[str, Any] = {
            "trigger_id": "",
            "world_id": seen.world_id,
            "workspace_id": seen.workspace_id,
            "reaction": definition.name,
            "definition_hash": definition.hash,
            "kind": kind,
            "target": {
                "kind": target_kind,
                "path": shown(target),
                "name": shown(name_of(target)),
                "target_id": ids.text(
                    ids.target_id(definition.name, target_kind, seen.workspace_id, target)
                ),
            },
            "changes": changes[:CHANGES_MAX],
            "changes_ref": changes_ref,
            "frame": more.get("frame"),
            "command": command,
            "tree_before": None if seen.before is None else ids.text(tree_id(seen.before)),
            "tree_after": ids.text(tree_id(seen.after)),
            "inputs": inputs.hash,
            "input_digest": inputs.digest,
            "cause": cause.cause,
            "writer": cause.writer,
            "actor": dict(cause.actor),
            "root_trigger_id": cause.root,
            "lineage": list(cause.lineage),
            "depth": cause.depth,
            "observed_n": seen.n,
            "observed_at": seen.observed_at,
            "cooldown_remaining_ms": 0,
            "coalesced": 0,
            "flags": [*seen.flags, *cause.flags],
            "trusted": False,
        }
        named = {key: value for key, value in made.items() if key not in UNNAMED}
        made["trigger_id"] = ids.text(ids.H("trigger@1", **named))
        made["root_trigger_id"] = cause.root or made["trigger_id"]
        return made

    def _inputs_of(self, definition: Definition, target: bytes, args: Mapping[str, Any]) -> Inputs:
        key = (definition.hash, target, canon.encode(dict(args)))
        if key not in self._inputs:
            self._inputs[key] = inputs_of(self.seen, definition, target, args)
        return self._inputs[key]


def _content(node: TreeNode | None) -> str | None:
    return None if node is None or node.id is None else ids.text(node.id)


def _row(change: Change) -> dict[str, Any]:
    return {
        "path": shown(change.path),
        "change": change.change,
        "before": _content(change.before),
        "after": _content(change.after),
    }
