"""The reference model: the same world in plain dicts, by another way.

It reads the journal's inputs (events, receipts, time, operators), predicts every tick and every
record that follows from them, and says where the journal differs.
It shares no code with the kernel: of the product it knows record fields and the canonical codec.
The reducers are the program's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallystick.testing import program
from tallystick.testing.reading import Reading
from tallystick.testing.reference_cells import Cell, Cells, Ident, born, over, verdict_of
from tallystick.values import canon


class Model:
    """Cells, mailboxes, the ring and open intents, as plain data."""

    def __init__(self, limits_of: Mapping[bytes, Mapping[str, int]]) -> None:
        self.read = Reading()
        self.there = Cells()
        self.limits_of = limits_of
        self.limits: Mapping[str, int] = {}
        self.open: dict[bytes, dict[str, Any]] = {}
        self.logical = 0
        self.now = self.hops = 0  # of what is being handled: mail inherits them

    def frame(self, seq: int, records: Sequence[Any]) -> None:
        """Explain one frame, or raise Violation."""
        self.there.ended = {}
        name = self.read.begin(seq, records)
        if name in ("Ticked", "WorkflowFaulted"):
            self._tick()
        else:
            record = self.read.take(name)
            if getattr(record, "stamp", None) is not None:
                self.logical, self.now, self.hops = record.stamp.logical_ns, record.stamp.now_ns, 0
            self._given(name, record)
        self.read.finish()

    def _given(self, name: str, record: Any) -> None:
        """What an input from outside does to the world."""
        # tidy: a line or two for each kind of input.
        ident = (getattr(record, "workflow", ""), getattr(record, "key", b""))
        match name:
            case "WorldCreated":
                self.limits = self.limits_of[self.read.take("BundleActivate").to]
                while self.read.left:
                    self.read.take("KeyTrusted")
            case "BundleActivate":
                self.read.must(not self._busy(), "I8", f"activated with {self._busy()[:3]} open")
                self.limits = self.limits_of[record.to]
            case "ApplyRefused" if record.code == "gov.not_quiescent":
                self.read.must(bool(self._busy()), "I8", "refused although nothing is open")
            case "EventAdmitted":
                self._route(record, record.schema, canon.decode(record.value))
            case "ReceiptSettled":
                self._receipts(record)
            case "ProgressNoted":
                known = self.open[record.intent]
                for i, ref in enumerate(known["waiters"]):
                    self._push(known["cell"], i, program.PROGRESS, {"issuer_ref": ref})
            case "CellSuspended":
                self.there.cells[ident]["status"] = "suspended"
                self.there.rest(ident)
            case "CellResumed":
                self.there.cells[ident]["status"] = "running"
                self.there.requeue(ident)
            case "CellSkipped":
                skipped = self.there.cells[ident]["mail"].pop(0)
                self.read.must(skipped["seq"] == record.input_seq, "I17", "skipped another entry")
            case "CellCancelRequested":
                self._push(ident, 0, program.CANCEL, {})
            case "CellFailed":
                self._fail(ident)
            case "SnapshotTaken":
                self.read.must(not self.there.ring, "I17", "a snapshot while cells were ready")
                self.read.left = [r for r in self.read.left if type(r).__name__ != "Noted"]
            case "Dropped" if record.reason in ("late", "duplicate", "after_terminal"):
                self.read.must(record.intent not in self.open, "I3", "dropped although it was open")

    def _busy(self) -> list[str]:
        return [*map(bytes.hex, self.open), *self.there.busy()]

    def _receipts(self, record: Any) -> None:
        """One receipt from outside, or all that time has made due."""
        self.read.must(record.intent in self.open, "I3", "a receipt settles what is not open")
        known = self.open[record.intent]
        if record.source != "kernel":
            if self._settle(record.intent, record.status, record) == "cell_failed":
                workflow, key = known["cell"]
                self.read.take("CellFailed", "I23", workflow=workflow, key=key)
                self._fail(known["cell"])
            return
        due = known["due"]
        self.read.must(due is not None and due <= self.logical, "I25", "settled before its time")
        self._settle(record.intent, known["ends"], record)
        if self.read.left:
            self._receipts(self.read.take("ReceiptSettled", "I3"))

    # ---- the tick ---------------------------------------------------------------------------

    def _tick(self) -> None:
        # tidy: the order of a tick's records is the rule.
        self.read.must(bool(self.there.ring), "I17", "a tick while no cell was ready")
        ident = self.there.ring.pop(0)
        cell, spec = self.there.cells[ident], program.SPECS[ident[0]]
        mail = cell["mail"][0]
        place = {"workflow": ident[0], "key": ident[1], "input_seq": mail["seq"]}
        self.logical += 1
        self.now, self.hops = mail["now"], mail["hops"] + 1
        event = {"$tag": spec.arms[mail["schema"]], "$value": mail["value"]}
        ctx = {"now_ns": max(mail["now"], 0), "logical_now_ns": self.logical}
        out = program.outcome(spec, cell["state"], event, ctx)
        code = "exception" if out is None else over(self.limits, cell, spec, out, self.there.takes)
        if out is None or code is not None:
            return self._faulted(ident, cell, place, code)
        after = None if out.state is None else canon.digest(out.state)
        self.read.take("Ticked", **place, input_index=mail["index"], status=out.status, after=after)
        unread = self._apply(ident, cell, out)
        for emitted in out.events:
            record = self.read.take("EventAdmitted", schema=emitted["schema"])
            self._route(record, emitted["schema"], emitted["value"])
        self._effects(ident, cell, spec, out.effects)
        if out.status != "running":
            self._end(ident, cell, out.status)
        if out.state is None:
            self._answer(cell)  # a caller waits for the end of its child, however it ends
        self.read.drops(unread)
        return None

    def _faulted(self, ident: Ident, cell: Cell, place: dict[str, Any], code: str | None) -> None:
        action = program.SPECS[ident[0]].after_fault
        self.read.take("WorkflowFaulted", "I16", **place, code=code, action=action)
        cell["status"] = action
        if action == "failed":
            self.there.ended[ident] = action
            cell["mail"].pop(0)
        record = self.read.take("EventAdmitted", schema=program.FAULT)
        self._route(record, program.FAULT, {"workflow": ident[0]})
        if action == "failed":
            self._end(ident, cell, action)

    def _apply(self, ident: Ident, cell: Cell, out: Any) -> list[Any]:
        """The cell after its tick; gives the receipts that a deleted cell leaves unread."""
        mail = cell["mail"]
        mail.pop(0)
        cell["state"], cell["status"] = out.state, out.status
        if out.state is None:
            self.there.ended[ident] = "deleted"
            kept = [m for m in mail if m["schema"] not in program.ANSWERS]
            fresh = self.there.cells[ident] = born(kept, self.read.seq)
            if ident[1] and not fresh["mail"]:
                del self.there.cells[ident]
        elif out.status != "running":
            self.there.ended[ident] = out.status
            if program.SPECS[ident[0]].is_entity and out.status == "completed" and mail:
                cell["status"] = "running"
        self.there.requeue(ident)
        return [m for m in mail if m["schema"] in program.ANSWERS] if out.state is None else []

    # ---- effects ----------------------------------------------------------------------------

    def _effects(self, ident: Ident, cell: Cell, spec: program.Spec, wanted: Any) -> None:
        opened, denied = [], []
        for asked in wanted:
            verdict = verdict_of(cell["keys"], spec, asked)
            if verdict == "open":
                opened.append((self._open(ident, cell, asked), asked))
            elif verdict == "attach":
                self._attach(ident, cell, asked)
            else:
                record = self.read.take("IntentDenied", "I6", effect=asked["effect"], code=verdict)
                denied.append((record.intent, asked["issuer_ref"]))
        for intent, ref in denied:
            record = self.read.take("ReceiptSettled", "I3", intent=intent, status="denied")
            self._deliver(record, {"cell": ident, "seq": self.read.seq, "waiters": [ref]})
        for intent, asked in opened:
            self._perform(cell, intent, asked)

    def _open(self, ident: Ident, cell: Cell, asked: Mapping[str, Any]) -> bytes:
        timeout, key = asked.get("timeout_ns"), asked.get("idempotency_key")
        due = None if timeout is None else self.logical + timeout
        record = self.read.take("IntentOpened", "I25", effect=asked["effect"], timeout_at_ns=due)
        ends, at = "timeout", asked["params"].get("deliver_at_ns")
        if asked["effect"] == program.TIMER and (due is None or at <= due):
            ends, due = "ok", at
        made = {"cell": ident, "of": cell, "seq": self.read.seq, "effect": asked["effect"]}
        made |= {"due": due, "ends": ends}
        self.open[record.intent] = {**made, "key": key, "waiters": [asked["issuer_ref"]]}
        cell["open"][record.intent] = asked["issuer_ref"]
        cell["keys"][asked["effect"], key]["intent"] = record.intent
        return bytes(record.intent)

    def _attach(self, ident: Ident, cell: Cell, asked: Mapping[str, Any]) -> None:
        known = cell["keys"][asked["effect"], asked["idempotency_key"]]
        self.read.take("IntentAttached", "I3", intent=known["intent"])
        if known["settled"] is None:
            self.open[known["intent"]]["waiters"].append(asked["issuer_ref"])
        elif ident not in self.there.ended:
            self._push(ident, 0, *program.envelope(known["settled"], asked["issuer_ref"]))

    def _perform(self, cell: Cell, intent: bytes, asked: Mapping[str, Any]) -> None:
        effect, params = asked["effect"], asked["params"]
        if effect == program.UNDO:
            wanted = params["issuer_ref"]
            for other in [i for i, ref in cell["open"].items() if ref == wanted and i != intent]:
                self._settle(other, "cancelled")
            self._settle(intent, "ok")
        elif effect in (program.SPAWN, program.CALL):
            child, payload = (params["workflow"], params["key"]), params["payload"]
            if not self.there.takes(child):
                self._settle(intent, "error")
                return
            record = self.read.take("EventAdmitted", "I3", schema=payload["schema"])
            to = [(target.workflow, target.key) for target in record.to]
            self.read.must(to == [child], "I4", f"sent to {to}, not to {child}")
            self._push(child, 0, payload["schema"], canon.decode(payload["value"]))
            if effect == program.CALL:
                self.there.cells[child]["callers"][intent] = None
            else:
                self._settle(intent, "ok")

    def _settle(self, intent: bytes, status: str, record: Any = None) -> str:
        """One terminal receipt, delivered to the cell that asked if it lives."""
        known = self.open.pop(intent)
        record = record or self.read.take("ReceiptSettled", "I3", intent=intent)
        self.read.must(record.status == status, "I3", f"settled {record.status}, not {status}")
        known["of"]["open"].pop(intent, None)
        known["of"]["keys"][known["effect"], known["key"]]["settled"] = status
        return self._deliver(record, known)

    def _deliver(self, record: Any, asked: Mapping[str, Any]) -> str:
        ident, refs = asked["cell"], asked["waiters"]
        cell = self.there.cells.get(ident)
        successor = cell is not None and cell["born"] > asked["seq"]
        dead = (
            ident in self.there.ended or cell is None or cell["status"] in ("completed", "failed")
        )
        schema, _ = program.envelope(record.status, "")
        outcome = "delivered"
        if dead or successor:
            outcome = "terminal"
        elif schema == program.REJECTED:
            known = schema in program.SPECS[ident[0]].arms
            outcome = "rejected_delivered" if known else "cell_failed"
        why = "I19" if successor else "I4"
        self.read.must(record.outcome == outcome, why, f"outcome {record.outcome}, not {outcome}")
        to = [tuple(address) for address in record.to]
        there = outcome in ("delivered", "rejected_delivered")
        self.read.must(to == [ident] * len(refs) * there, why, f"went to {to}, asked by {ident}")
        for i, ref in enumerate(refs if there else ()):
            self._push(ident, i, *program.envelope(record.status, ref))
        return outcome

    # ---- ends and mail ----------------------------------------------------------------------

    def _fail(self, ident: Ident) -> None:
        cell = self.there.cells[ident]
        self.there.ended[ident] = cell["status"] = "failed"
        self.there.rest(ident)
        self._end(ident, cell, "failed")

    def _end(self, ident: Ident, cell: Cell, status: str) -> None:
        record = self.read.take("EventAdmitted", schema=program.COMPLETED)
        self._route(record, program.COMPLETED, {"workflow": ident[0]})
        self._answer(cell)
        if status == "failed" or not program.SPECS[ident[0]].is_entity:
            unread, cell["mail"] = cell["mail"], []
            self.read.drops(unread)

    def _answer(self, cell: Cell) -> None:
        """Who called is answered; what was asked and is open is cancelled."""
        for intent in [i for i in cell["callers"] if i in self.open]:
            self._settle(intent, "ok")
        for intent in list(cell["open"]):
            self._settle(intent, "cancelled")

    def _route(self, record: Any, schema: str, value: Mapping[str, Any]) -> None:
        """Deliver an event to its subscribers, in manifest order."""
        wanted, lost = self.there.routed(schema, value)
        to = [(target.workflow, target.key) for target in record.to]
        self.read.must(to == wanted, "I17", f"{schema} went to {to}, not to {wanted}")
        for i, ident in enumerate(wanted):
            self._push(ident, i, schema, value)
        for reason in lost:
            self.read.take("Dropped", what="event", reason=reason)

    def _push(self, ident: Ident, index: int, schema: str, value: Mapping[str, Any]) -> None:
        entry = {"seq": self.read.seq, "index": index, "schema": schema, "value": value}
        self.there.push(ident, {**entry, "now": self.now, "hops": self.hops})
