"""The scene of the scripted workflows, judged by the reference model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallystick.kernel.inputs import Operate, Sample, Submit
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.model.records import EventAdmitted, ReceiptSettled
from tallystick.modules.python import PythonRunner
from tallystick.node.jobs import Published
from tallystick.testing import program
from tallystick.testing.bundle import bundle_of
from tallystick.testing.plan import Config, Decision
from tallystick.testing.reference import Model
from tallystick.testing.scene import Content, Plain
from tallystick.testing.violation import must
from tallystick.values import canon


class ScriptScene(Plain):
    """Workflows that obey the words of their events."""

    def __init__(self, config: Config) -> None:
        self.bundles = [bundle_of(config.limits), bundle_of({**config.limits, "fuel": 9})]
        self.runner = PythonRunner(program.FUNCTIONS)
        self.bounds = config.bounds()
        self.model = Model({bundle.manifest: self.bounds for bundle in self.bundles})
        self._fence: dict[bytes, int] = {}
        self._resumed: dict[tuple[str, bytes], int] = {}

    def frame(self, seq: int, records: Sequence[Any], content: Content) -> None:
        """The model explains the frame, record by record; it needs no blobs."""
        del content
        first = records[0]
        if isinstance(first, EventAdmitted):
            self.check_I9(first)
            self.check_I42(first)
        elif isinstance(first, ReceiptSettled):
            self.check_I23(first)
        self.model.frame(seq, records)

    def check_I9(self, record: EventAdmitted) -> None:  # noqa: N802 - named by the invariant
        """One Idempotency-Key is admitted once within its window."""
        if record.idem_key is None or record.stamp is None:
            return
        now, before = record.stamp.logical_ns, self._fence.get(record.idem_key.key)
        window = self.bounds["idempotency_window"]
        must(before is None or before + window <= now, "I9", "one key was admitted twice")
        self._fence[record.idem_key.key] = now

    def check_I23(self, record: ReceiptSettled) -> None:  # noqa: N802
        """What an executor says is readable, or it was rejected."""
        if record.source == "executor":
            status = record.status
            must(status in ("ok", "error", "rejected"), "I23", f"no executor says {status}")
            readable = status != "ok" or canon.decode(record.payload or b"").keys() == {"ref"}
            must(readable, "I23", "an unreadable receipt was taken for good")

    def check_I42(self, record: EventAdmitted) -> None:  # noqa: N802
        """A full mailbox takes no more from outside."""
        for target in record.to:
            cell = self.model.there.cells.get((target.workflow, target.key))
            room = cell is None or len(cell["mail"]) < self.bounds["mailbox_max"]
            must(room, "I42", f"{target.workflow} took more than its mailbox holds")

    def inputs(self, decision: Decision, sample: Sample) -> list[Any]:
        """The event as it was drawn, which may be a bad one."""
        idem = decision.get("idem")
        name = None if idem is None else idem.encode()
        return [Submit(sample, decision["schema"], decision["value"], idem_key=name)]

    def greeting(self, sample: Sample, ref: int) -> Submit:
        """A deposit."""
        return Submit(sample, program.DEPOSIT, {"account": "fork", "amount": 1, "ref": ref})

    def answer(self, job: Published) -> tuple[str, bytes]:
        """The receipt of a charge."""
        return "ok", canon.encode({"ref": job.dispatch_key.hex()[:12]})

    def wanted(self, sample: Sample) -> list[Any]:
        """Resume suspended cells; what faults again is skipped first."""
        made = []
        for (workflow, key), cell in self.model.there.cells.items():
            if cell["status"] != "suspended":
                continue
            again = self._resumed.get((workflow, key), 0)
            self._resumed[workflow, key] = again + 1
            if again and cell["mail"]:
                made.append(Operate(sample, "skip", "alice", "drain", workflow, key))
            made.append(Operate(sample, "resume", "alice", "drain", workflow, key))
        return made

    def dues(self) -> list[int]:
        """When timers and timeouts are due."""
        return [known["due"] for known in self.model.open.values() if known["due"] is not None]

    def check_end(self, world: World) -> None:
        """The product's cells are the model's cells, and only joins still wait."""
        for intent, known in self.model.open.items():
            # A call waits for its child, and two cells may wait for each other.
            good = known["effect"].startswith("sys/workflow.")
            must(good, "I3", f"{known['effect']} {intent.hex()[:8]} never settled")
        must(not self.model.there.ring, "I18", "cells are ready and do not run")
        there = sum(1 for store in world.cells.values() for _ in store.entries())
        mine = self.model.there.cells
        must(there == len(mine), "I2", f"{there} cells, the model has {len(mine)}")
        for (workflow, key), known in mine.items():
            cell = world.cell(CellId(workflow, key))
            must(cell is not None, "I2", f"{workflow} {key.hex()} is missing")
            assert cell is not None, "must has seen to it"
            data = world.state_of(cell)
            state = None if data is None else canon.decode(data)
            must(state == known["state"], "I2", f"{workflow} {key.hex()} holds {state}")
            must(cell.status == known["status"], "I17", f"{workflow} is {cell.status}")
            must(list(cell.inflight) == list(known["open"]), "I3", f"{workflow} waits for others")
