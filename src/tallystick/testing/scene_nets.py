"""The scene of playbooks: random nets under faults, judged by the model of the net."""

from __future__ import annotations

from collections.abc import Sequence
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
    Ticked,
    WorkflowFaulted,
)
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Library, Runners
from tallystick.node.jobs import Published
from tallystick.playbooks.bundle import WORKFLOW, play_documents
from tallystick.playbooks.document import load
from tallystick.playbooks.trace import events_of
from tallystick.testing.bundle import Bundle, built
from tallystick.testing.check_net import Execution
from tallystick.testing.draw_nets import net_of, text_of
from tallystick.testing.plan import Config, Decision
from tallystick.testing.reference_net import Net, Step
from tallystick.testing.scene import Content, NoArtifacts, Plain
from tallystick.testing.violation import must
from tallystick.values import canon

REQUESTED: Final = "sys/PlayRequested@1"
PATCHED: Final = "sys/PlayCtxPatch@1"
STEP: Final = "sys/playbook.step@1"
_GREETING: Final = Net({"s0": Step("s0", work=True)}, "fail_on_any_error", None)


class PlayScene(Plain):
    """Executions of random nets; people set ctx.n, which opens gates and arcs."""

    def __init__(self, config: Config) -> None:
        window = config.limits.get("idempotency_window")
        self.bundles = [_bundle(window, 64), _bundle(window, 63)]
        self.runner = Runners(NoArtifacts(), library=Library(), lanes={"builtin": Builtin()})
        self.executions: dict[bytes, Execution] = {}
        self._nets: dict[bytes, Net] = {}
        self._inputs: dict[int, Any] = {}
        self._asked: dict[bytes, IntentOpened] = {}
        self._suspended: dict[bytes, None] = {}

    # ---- people and the outside -------------------------------------------------------------

    def inputs(self, decision: Decision, sample: Sample) -> list[Any]:
        """A request to play a net, or a patch of its ctx."""
        if "patch" in decision:
            return [_patch(sample, decision["patch"])]
        return [self._request(sample, decision["play"], net_of(decision["net"]))]

    def greeting(self, sample: Sample, ref: int) -> Submit:
        """An execution of one step."""
        return self._request(sample, f"hello{ref}", _GREETING)

    def _request(self, sample: Sample, name: str, net: Net) -> Submit:
        data = load(text_of(net), unchecked=True).bytes
        self._nets[data] = net
        value: dict[str, Any] = {"execution": name, "document": data, "workload": {}}
        value |= {"grants": {"python": {}}, "principal": "ana", "parent": None}
        return Submit(sample, REQUESTED, value, "native", origin="system")

    def answer(self, job: Published) -> tuple[str, bytes]:
        """The outcome of a step: mostly good, sometimes with a patch."""
        failed, patched = job.dispatch_key[0] < 50, job.dispatch_key[1] < 77
        error = {"kind": "unknown", "code": "boom", "message": "boom", "retryable": False}
        made: dict[str, Any] = {
            "status": "error" if failed else "ok",
            "error": error if failed else None,
        }
        made |= {"result": 1, "tasks": [], "ref": None, "size": 0, "results": {}}
        made |= {"patches": {"n": 1} if patched else {}, "frame": None, "wish": None}
        return "ok", canon.encode(made)

    def wanted(self, sample: Sample) -> list[Any]:
        """Resume what was suspended, and open the gates that executions wait at."""
        made: list[Any] = [
            Operate(sample, "resume", "alice", "drain", WORKFLOW, key) for key in self._suspended
        ]
        made += [
            _patch(sample, canon.decode(key))
            for key, each in self.executions.items()
            if each.waits and key not in self._suspended
        ]
        return made

    def dues(self) -> list[int]:
        """These nets set no timers."""
        return []

    # ---- the judge --------------------------------------------------------------------------

    def frame(self, seq: int, records: Sequence[Any], content: Content) -> None:
        """Play each tick in the model too, and compare."""
        for at, record in enumerate(records, seq):
            match record:
                case EventAdmitted() | ReceiptSettled():
                    self._inputs[at] = record
                case Ticked(workflow=name) if name == WORKFLOW:
                    self._ticked(record, content)
                case IntentOpened(effect=effect) if effect == STEP:
                    self._asked[record.intent] = record
                    self.executions[record.origin.key].check_I36(record.issuer_ref or "")
                case CellSuspended():
                    self._suspended[record.key] = None
                case CellResumed():
                    self._suspended.pop(record.key, None)
                case WorkflowFaulted():
                    must(False, "I35", f"an execution faulted: {record.code} {record.message}")

    def _ticked(self, record: Ticked, content: Content) -> None:
        given = self._inputs[record.input_seq]
        if record.key not in self.executions:
            document = canon.decode(given.value)["document"]
            self.executions[record.key] = Execution(self._nets[document])
        elif isinstance(given, ReceiptSettled):
            self._settled(self.executions[record.key], given)
        elif given.schema == PATCHED:
            self.executions[record.key].model.patch()
        execution = self.executions[record.key]
        if record.after != record.before:  # what has not changed is not written again
            state = canon.decode(
                _read(content, record.after) if record.state is None else record.state
            )
            # While loops go round, the net stands apart.
            apart = state["held"][0] if state["net"] is None else None
            if apart is not None:
                state = canon.decode(_read(content, canon.raw_of(apart)))
            execution.state = state["net"]
        execution.check([] if record.ann is None else events_of(record.ann))

    def _settled(self, execution: Execution, given: ReceiptSettled) -> None:
        asked = self._asked.get(given.intent)
        if asked is None:
            return  # a request to cancel was settled: nobody waits for that
        outcome = canon.decode(given.payload or b"") if given.status == "ok" else {}
        good = outcome.get("status") == "ok"
        execution.settle(asked.issuer_ref or "", ok=good, patch=bool(outcome.get("patches")))

    def check_end(self, world: World) -> None:
        """Every execution has ended, and nothing is open (I3, I37)."""
        for key, each in self.executions.items():
            must(bool(each.model.result), "I37", f"{canon.decode(key)} never ended")
        open_now = [intent.hex()[:8] for intent, _ in world.intents.entries()]
        must(not open_now, "I3", f"{open_now} never settled")
        must(not world.ring, "I18", "cells are ready and do not run")


def _read(content: Content, digest: bytes | None) -> bytes:
    data = content(digest or b"")
    assert data is not None, "what a record names is in a blob of its commit, or an older one"
    return data


def _patch(sample: Sample, name: str) -> Submit:
    value = {"execution": name, "set": {"n": 1}, "unset": [], "reason": "go", "principal": "ana"}
    return Submit(sample, PATCHED, value, "native", origin="system")


@lru_cache(maxsize=64)
def _bundle(window: int | None, logs_max: int) -> Bundle:
    limits = {"logs_max": logs_max} | ({} if window is None else {"idempotency_window": window})
    first, manifest = play_documents()
    return built([first, {**manifest, "limits": limits}])
