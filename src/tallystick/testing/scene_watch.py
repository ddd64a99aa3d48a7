"""The scene of reactions: people edit a simulated tree, four reactions answer, nothing loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from tallystick.kernel.inputs import Operate, Sample, Submit
from tallystick.kernel.world import World
from tallystick.model.records import (
    CellResumed,
    CellSuspended,
    EventAdmitted,
    IntentOpened,
    ReceiptSettled,
    WorkflowFaulted,
)
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Library, Runners
from tallystick.node.jobs import Published
from tallystick.reactions import ids
from tallystick.reactions.bundle import reaction_documents
from tallystick.reactions.document import Definition, load
from tallystick.reactions.observation import Observation
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import EMPTY, FILE, Tree, TreeNode, listings, tree_id, with_changes
from tallystick.reactions.triggers import derive
from tallystick.testing.bundle import Bundle, built
from tallystick.testing.plan import Config, Decision
from tallystick.testing.ports import WORLD
from tallystick.testing.scene import Content, NoArtifacts, Plain
from tallystick.testing.violation import must
from tallystick.testing.workspace import FILES, Workspace, run_of
from tallystick.values import canon

WS: Final = "ws"
TIMER: Final = "sys/timer.set@1"
CAUSED_MAX: Final = 256
_REACTION: Final = """
reaction: {name}
on: [{{files: ["{reads}"]{more}}}]
reads: {{files: ["{reads}"]}}
writes: {{files: [{writes}]}}
overlap: {overlap}
cooldown: {cooldown}
breaker: {{runs: 1000}}
actions:
{read}  - {{name: out, file.write: {{path: {writes}, content: "{made}"}}}}
"""
_READ: Final = "  - {{name: in, file.read: {{paths: [{reads}]}}}}\n"
_WRITES: Final = {"first": "gen/a.out", "second": "gen/b.out", "third": "sum.md", "format": "f.txt"}
_SETUP: Final = ("sys/WorkspaceAdded@1", "sys/ReactionsLoaded@1", "sys/WorkspaceTrust@1")


def _text(name: str, reads: str, made: str, **more: str) -> str:
    read = "" if "*" in reads else _READ.format(reads=reads)
    given = {"more": "", "overlap": "forbid", "cooldown": "0ms", "read": read, **more}
    return _REACTION.format(name=name, reads=reads, writes=_WRITES[name], made=made, **given)


@lru_cache(maxsize=1)
def _definitions() -> tuple[Definition, ...]:
    """A chain of two, one that looks at everything, and one that rewrites what it reads."""
    seen = "{{ actions.in.text }}"
    generated = ", generated: true"
    texts = (
        _text("first", "a.txt", f"first({seen})"),
        _text("second", "gen/a.out", f"second({seen})", more=generated, cooldown="500ms"),
        _text("third", "**", "{{ trigger.input_digest }}", more=generated, overlap="managed"),
        _text("format", "f.txt", f"{seen}!", overlap="in_place"),
    )
    return tuple(load(text, f"r{i}") for i, text in enumerate(texts))


# An attempt that nobody gave up on purpose: when its state comes back, so does the run (G4).
_OVERTAKEN: Final = (("aborted", "input_moved"), ("aborted", "restart"))


class WatchScene(Plain):
    """One workspace; the watcher's part is done here, from what is durable."""

    def __init__(self, config: Config) -> None:
        window = config.limits.get("idempotency_window")
        self.bundles = [_bundle(window, 64), _bundle(window, 63)]
        self.runner = Runners(NoArtifacts(), library=Library(), lanes={"builtin": Builtin()})
        self.disk = Workspace({name: frozenset((path,)) for name, path in _WRITES.items()})
        self.disk.edit("a.txt", "start")
        self.harmed = False  # an executor failed a run, so that its reaction may rest
        self._stamps = Stamps()
        self._tree: Tree | None = None
        self._trees: dict[str, Tree] = {}
        self._n = 0
        self._first: dict[str, bytes | None] = {}
        self._moved: dict[str, None] = {}
        self._heard: dict[str, None] = {}
        self._timers: dict[bytes, int] = {}
        self._files: dict[bytes, None] = {}
        self._suspended: dict[tuple[str, bytes], None] = {}
        self._started: Counter[tuple[str, str]] = Counter()
        self._caused: Counter[str] = Counter()
        self._ended: dict[str, None] = {}

    # ---- people, the watcher, the outside ---------------------------------------------------

    def inputs(self, decision: Decision, sample: Sample) -> list[Any]:
        """An edit changes the disk and tells nobody; a look submits what it sees."""
        if "edit" in decision:
            self.disk.edit(decision["edit"], decision["text"])
            return []
        return self._look(sample)

    def greeting(self, sample: Sample, ref: int) -> Submit:
        """Another workspace."""
        return _system(sample, _SETUP[0], workspace_id=f"hello{ref}", name="w", shared=False)

    def answer(self, job: Published) -> tuple[str, bytes]:
        """The file executor."""
        assert job.effect in FILES, "the reactions of this scene ask for nothing else"
        return self.disk.perform(job)

    def wanted(self, sample: Sample) -> list[Any]:
        """Resume what was suspended, and look once more."""
        made = [Operate(sample, "resume", "alice", "drain", *cell) for cell in self._suspended]
        return [*made, *self._look(sample)]

    def dues(self) -> list[int]:
        """When cooldowns are over."""
        return list(self._timers.values())

    def _look(self, sample: Sample) -> list[Any]:
        for schema in _SETUP:
            if schema not in self._heard:
                return [self._setup(sample, schema)]
        leaves: dict[bytes, TreeNode | None] = {
            path.encode(): TreeNode(FILE, ids.content_id(body), len(body))
            for path, body in self.disk.files.items()
        }
        after, before = with_changes(EMPTY, leaves), self._tree
        seen = Observation(
            WORLD, WS, self._n + 1, sample.now_ns, before, after, _definitions(), self._stamps
        )
        made = derive(seen)
        was = None if before is None else ids.text(tree_id(before))
        now = ids.text(tree_id(after))
        if was == now and not made.triggers:
            return []
        self._trees[now] = after
        blobs = [*made.blobs, *listings(after, before or EMPTY).values()]
        told: dict[str, Any] = {
            "n": seen.n,
            "before": was,
            "after": now,
            "stamps_at": 0,
            "feed_upto": 0,
        }
        told |= {"flags": [], "git_commit": None, "observed_at": max(sample.now_ns, 0)}
        told |= {"triggers": made.triggers, "outcomes": made.outcomes, "blobs": blobs}
        value = {"workspace_id": WS, **told}
        return [Submit(sample, "sys/Observed@1", value, "native", origin="system")]

    def _setup(self, sample: Sample, schema: str) -> Submit:
        if schema == _SETUP[0]:
            return _system(sample, schema, workspace_id=WS, name="w", shared=False)
        made = _definitions()
        if schema == _SETUP[1]:
            blobs = [blob for each in made for blob in each.blobs]
            data = [each.data for each in made]
            return _system(sample, schema, workspace_id=WS, definitions=data, blobs=blobs)
        hashes = [each.hash for each in made]
        return _system(sample, schema, workspace_id=WS, definitions=hashes, follow=None)

    # ---- the judge --------------------------------------------------------------------------

    def frame(self, seq: int, records: Sequence[Any], content: Content) -> None:
        """Follow what is durable, and judge triggers, runs and writes."""
        del seq
        self.disk.content = content
        for record in records:
            self._stamps.note(record, content)
            match record:
                case EventAdmitted():
                    self._event(record, content)
                case IntentOpened():
                    self._opened(record)
                case ReceiptSettled():
                    self._settled(record)
                case CellSuspended():
                    self._suspended[record.workflow, record.key] = None
                case CellResumed():
                    self._suspended.pop((record.workflow, record.key), None)
                case WorkflowFaulted():
                    must(False, "I29", f"{record.workflow} faulted: {record.message}")

    def _event(self, record: EventAdmitted, content: Content) -> None:
        data = record.value if record.value is not None else content(record.value_hash or b"")
        assert data is not None, "an event stands in its record, or in a blob of its commit"
        told = canon.decode(data)
        match record.schema:
            case schema if schema in _SETUP and told["workspace_id"] == WS:
                self._heard[schema] = None
            case "sys/Observed@1":
                was = None if self._tree is None else ids.text(tree_id(self._tree))
                if (told["n"], told["before"]) == (self._n + 1, was):
                    self._n, self._tree = told["n"], self._trees[told["after"]]
                    self._follow(self._tree)
            case "sys/TriggerOffered@1":
                self.check_I29(told)
            case "sys/RunStart@1":
                self.check_I30(told["trigger"])
                self.check_I31(told)
            case "sys/RunSettled@1" if told["run_id"] is not None:
                self._ended[told["run_id"]] = None
                if (told["outcome"], told["code"]) in _OVERTAKEN:
                    # The files moved on under it: its key is as good as untried.
                    self._started[told["run_key"], "run"] = 0

    def _follow(self, tree: Tree) -> None:
        """Which files have changed since the first look, which fires nothing."""
        for path in self.disk.people:
            node = tree.get(path.encode())
            now = None if node is None else node.id
            if self._first.setdefault(path, now if self._n == 1 else None) != now:
                self._moved[path] = None

    def _opened(self, record: IntentOpened) -> None:
        if record.effect == TIMER:
            self._timers[record.intent] = canon.decode(record.params or b"")["deliver_at_ns"]
        elif record.effect in FILES:
            self._files[record.intent] = None
            self.check_I32(run_of(record))

    def _settled(self, record: ReceiptSettled) -> None:
        self._timers.pop(record.intent, None)
        if record.intent in self._files and record.status != "ok":
            self.harmed = self.harmed or record.intent not in self.disk.conflicts

    def check_I29(self, told: Mapping[str, Any]) -> None:  # noqa: N802 - named by the invariant
        """What a reaction wrote itself is no event for it."""
        mine = [
            told["reaction"] in self.disk.written.get((change["path"], change["after"]), ())
            for change in told["changes"]
        ]
        must(not mine or not all(mine), "I29", f"{told['reaction']} is offered its own writes")

    def check_I30(self, trigger: Mapping[str, Any]) -> None:  # noqa: N802
        """Depth and the number of runs of one outside event are bounded."""
        (definition,) = [each for each in _definitions() if each.name == trigger["reaction"]]
        most = definition["max_depth"]
        must(trigger["depth"] <= most, "I30", f"a run at depth {trigger['depth']} of {most}")
        self._caused[trigger["root_trigger_id"]] += 1
        caused = self._caused[trigger["root_trigger_id"]]
        must(caused <= CAUSED_MAX, "I30", f"one event has caused {caused} runs")

    def check_I31(self, told: Mapping[str, Any]) -> None:  # noqa: N802
        """One run per definition, fingerprint and target."""
        self._started[told["run_key"], told["kind"]] += 1
        first = self._started[told["run_key"], "run"] <= 1
        must(first, "I31", f"{told['trigger']['reaction']} ran twice for one key")

    def check_I32(self, run: str | None) -> None:  # noqa: N802
        """A run that has ended accepts no action."""
        must(run not in self._ended, "I32", f"{run} writes after its end")

    def check_end(self, world: World) -> None:
        """The last content of each file is the one that was processed (I29, I33)."""
        open_now = [intent.hex()[:8] for intent, _ in world.intents.entries()]
        must(not open_now, "I3", f"{open_now} never settled")
        must(not world.ring, "I18", "cells are ready and do not run")
        if self.harmed or any(schema not in self._heard for schema in _SETUP):
            return
        people = self.disk.people
        if "a.txt" in self._moved:
            made = b"first(%s)" % people["a.txt"]
            self._is("gen/a.out", made)
            self._is("gen/b.out", b"second(%s)" % made)
        if "f.txt" in self._moved:
            self._is("f.txt", people["f.txt"] + b"!")

    def _is(self, path: str, wanted: bytes) -> None:
        there = self.disk.files.get(path)
        must(there == wanted, "I33", f"{path} holds {there!r}, not {wanted!r}")


def _system(sample: Sample, schema: str, **value: Any) -> Submit:
    return Submit(sample, schema, {**value, "principal": "ana"}, "native", origin="system")


@lru_cache(maxsize=64)
def _bundle(window: int | None, logs_max: int) -> Bundle:
    first, manifest = reaction_documents()
    limits = {**manifest["limits"], "logs_max": logs_max}
    limits |= {} if window is None else {"idempotency_window": window}
    return built([first, {**manifest, "limits": limits}])
