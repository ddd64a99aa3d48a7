"""The reference model: the same world in plain dicts, by another way.

It reads the journal's inputs (events, receipts, time, operators), predicts every tick and every
record that follows from them, and says where the journal differs.
It shares no code with the kernel: of the product it knows record fields and the canonical codec.
The reducers are the program's own.
"""

# tidy: a second kernel in one file; split, it could not be compared with the first.
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallystick.testing import program
from tallystick.testing.violation import Violation
from tallystick.values import canon

Cell = dict[str, Any]
Ident = tuple[str, bytes]


class Model:
    """Cells, mailboxes, the ring, open intents and the fence, as plain data."""

    def __init__(self, limits_of: Mapping[bytes, Mapping[str, int]]) -> None:
        self.limits_of = limits_of
        self.limits: Mapping[str, int] = {}
        self.cells: dict[Ident, Cell] = {}
        self.ring: list[Ident] = []
        self.open: dict[bytes, dict[str, Any]] = {}
        self.fence: dict[bytes, tuple[bytes, int]] = {}
        self.logical = 0
        self.seq = 0
        self.now = 0  # of what is being handled: mail inherits it
        self.hops = 0
        self.left: list[Any] = []  # records of the frame that are not explained yet
        self.ended: dict[Ident, str] = {}  # within one frame

    # ---- reading a frame --------------------------------------------------------------------

    def frame(self, seq: int, records: Sequence[Any]) -> None:
        """Explain one frame, or raise Violation."""
        self.seq = seq - 1
        self.left = list(records)
        self.ended = {}
        first = records[0]
        stamp = getattr(first, "stamp", None)
        if stamp is not None:
            wanted = max(self.logical + 1, stamp.now_ns)
            self.must(stamp.logical_ns == wanted, "I25", "logical time is not the next one")
            self.logical, self.now, self.hops = wanted, stamp.now_ns, 0
        name = type(first).__name__
        if name in ("Ticked", "WorkflowFaulted"):
            self._tick()
        else:
            getattr(self, "_in_" + name)(self.take(name))
        self.must(not self.left, "I17", f"{[type(r).__name__ for r in self.left]} unexplained")

    def must(self, good: bool, invariant: str, message: str) -> None:
        """Differ unless it holds."""
        if not good:
            raise Violation(invariant, f"at seq {self.seq}: {message}")

    def take(self, name: str, invariant: str = "I17", **wanted: Any) -> Any:
        """The next record of the frame, which must be this one."""
        self.seq += 1
        self.must(bool(self.left), invariant, f"{name} is missing")
        record = self.left.pop(0)
        got = type(record).__name__
        self.must(got == name, invariant, f"{got} where the model has {name}")
        for field, value in wanted.items():
            found = getattr(record, field)
            self.must(found == value, invariant, f"{name}.{field} is {found!r}, not {value!r}")
        return record

    # ---- inputs -----------------------------------------------------------------------------

    def _in_WorldCreated(self, _record: Any) -> None:  # noqa: N802 - named by the record
        self._activate(self.take("BundleActivate"))
        while self.left:
            self.take("KeyTrusted")

    def _in_BundleActivate(self, record: Any) -> None:  # noqa: N802
        self.must(not self.blockers(), "I8", f"activated in spite of {self.blockers()[:3]}")
        self._activate(record)

    def _activate(self, record: Any) -> None:
        self.limits = self.limits_of[record.to]

    def _in_ApplyRefused(self, record: Any) -> None:  # noqa: N802
        quiet = record.code == "gov.not_quiescent" and not self.blockers()
        self.must(not quiet, "I8", "refused although nothing is open")

    def _in_EventAdmitted(self, record: Any) -> None:  # noqa: N802
        if record.idem_key is not None:
            window = self.limits["idempotency_window"]
            known = self.fence.get(record.idem_key.key)
            fresh = known is None or known[1] + window <= self.logical
            self.must(fresh, "I9", "one Idempotency-Key was admitted twice within its window")
            self.fence[record.idem_key.key] = (record.idem_key.digest, self.logical)
        full = self.limits["mailbox_max"]
        for target in record.to:
            cell = self.cells.get((target.workflow, target.key))
            self.must(cell is None or len(cell["mail"]) < full, "I42", "a full mailbox took more")
        self._route(record, record.schema, canon.decode(record.value))

    def _in_ReceiptSettled(self, record: Any) -> None:  # noqa: N802
        first = True
        while first or self.left:
            record = record if first else self.take("ReceiptSettled", "I3")
            first = False
            intent = self.open.get(record.intent)
            self.must(intent is not None, "I3", "a receipt settles what is not open")
            assert intent is not None
            if record.source == "kernel":
                self.must(intent["due"] is not None, "I25", "nothing was due")
                self.must(intent["due"] <= self.logical, "I25", "settled before its time")
                status = "ok" if intent["effect"] == program.TIMER else "timeout"
                self._settle(record.intent, status, record)
            else:
                self._from_outside(record, intent)

    def _from_outside(self, record: Any, intent: dict[str, Any]) -> None:
        self.must(intent["effect"] == program.CHARGE, "I22", "no executor performs this effect")
        self.must(record.status in ("ok", "error", "rejected"), "I22", "no executor says this")
        if record.status == "ok":
            good = canon.decode(record.payload).keys() == {"ref"}
            self.must(good, "I23", "an unreadable receipt was taken for good")
        cell = intent["cell"]
        failed = self._settle(record.intent, record.status, record) == "cell_failed"
        if failed:
            self.take("CellFailed", "I23", workflow=cell[0], key=cell[1])
            self._fail(cell)

    def _in_ProgressNoted(self, record: Any) -> None:  # noqa: N802
        intent = self.open.get(record.intent)
        self.must(intent is not None, "I24", "progress of what is not open")
        assert intent is not None
        self.must(record.seq > intent["progress"], "I24", "progress does not grow")
        intent["progress"] = record.seq
        for i, ref in enumerate(intent["waiters"]):
            self._push(intent["cell"], i, program.PROGRESS, {"issuer_ref": ref})

    def _in_CellSuspended(self, record: Any) -> None:  # noqa: N802
        ident = (record.workflow, record.key)
        self.cells[ident]["status"] = "suspended"
        self.ring = [each for each in self.ring if each != ident]

    def _in_CellResumed(self, record: Any) -> None:  # noqa: N802
        self.cells[record.workflow, record.key]["status"] = "running"
        self._requeue((record.workflow, record.key))

    def _in_CellSkipped(self, record: Any) -> None:  # noqa: N802
        skipped = self.cells[record.workflow, record.key]["mail"].pop(0)
        self.must(skipped["seq"] == record.input_seq, "I17", "skipped another entry")

    def _in_CellCancelRequested(self, record: Any) -> None:  # noqa: N802
        self._push((record.workflow, record.key), 0, program.CANCEL, {})

    def _in_CellFailed(self, record: Any) -> None:  # noqa: N802
        self._fail((record.workflow, record.key))

    def _in_EffectAttempted(self, record: Any) -> None:  # noqa: N802
        self.must(record.intent in self.open, "I3", "an attempt at what is not open")
        self.open[record.intent]["progress"] = 0

    def _in_SnapshotTaken(self, _record: Any) -> None:  # noqa: N802
        self.must(not self.ring, "I17", "a snapshot while cells were ready")
        self.left = [r for r in self.left if type(r).__name__ != "Noted"]

    def _in_Dropped(self, record: Any) -> None:  # noqa: N802
        if record.reason in ("late", "duplicate", "after_terminal"):
            self.must(record.intent not in self.open, "I3", "dropped although it was open")

    def _in_KeyTrusted(self, _record: Any) -> None:  # noqa: N802
        """Keys are judged by their own check."""

    _in_KeyRevoked = _in_KeyTrusted  # noqa: N815

    # ---- the tick ---------------------------------------------------------------------------

    def _tick(self) -> None:
        # tidy: the order of a tick's records is the rule.
        self.must(bool(self.ring), "I17", "a tick while no cell was ready")
        ident = self.ring.pop(0)
        cell, spec = self.cells[ident], program.SPECS[ident[0]]
        mail = cell["mail"][0]
        place = {"workflow": ident[0], "key": ident[1], "input_seq": mail["seq"]}
        self.logical += 1
        self.now, self.hops = mail["now"], mail["hops"] + 1
        event = {"$tag": spec.arms[mail["schema"]], "$value": mail["value"]}
        ctx = {"now_ns": max(mail["now"], 0), "logical_now_ns": self.logical}
        try:
            out = program.REDUCERS[spec.reducer](cell["state"], event, ctx)
        except ValueError:
            return self._faulted(ident, cell, place, "exception")
        out = out if hasattr(out, "effects") else program.plain(out)
        code = self._over(cell, spec, out)
        if code is not None:
            return self._faulted(ident, cell, place, code)
        after = None if out.state is None else canon.digest(out.state)
        self.take("Ticked", **place, input_index=mail["index"], status=out.status, after=after)
        unread = self._apply(ident, cell, out)
        for emitted in out.events:
            record = self.take("EventAdmitted", schema=emitted["schema"])
            self._route(record, emitted["schema"], emitted["value"])
        self._effects(ident, cell, spec, out.effects)
        if out.status != "running":
            self._end(ident, cell, out.status)
        if out.state is None:
            self._answer(cell)  # a caller waits for the end of its child, however it ends
            self._cancel_all(cell)
        self._drop(unread)
        return None

    def _over(self, cell: Cell, spec: program.Spec, out: Any) -> str | None:
        """The limit that an output passes, or None."""
        if len(out.effects) > self.limits["effects_max"]:
            return "effects_max"
        keys = dict(cell["keys"])
        fresh = [e for e in out.effects if self._verdict(keys, spec, e) == "open"]
        over = len(cell["open"]) + len(fresh) > self.limits["inflight_max"]
        return "inflight_max" if over else None

    def _faulted(self, ident: Ident, cell: Cell, place: dict[str, Any], code: str) -> None:
        action = "suspended" if program.SPECS[ident[0]].on_fault == "suspend" else "failed"
        self.take("WorkflowFaulted", "I16", **place, code=code, action=action)
        cell["status"] = action
        if action == "failed":
            self.ended[ident] = action
            cell["mail"].pop(0)
        record = self.take("EventAdmitted", schema=program.FAULT)
        self._route(record, program.FAULT, {"workflow": ident[0]})
        if action == "failed":
            self._end(ident, cell, action)

    def _apply(self, ident: Ident, cell: Cell, out: Any) -> list[Any]:
        """The cell after its tick; gives the receipts that a deleted cell leaves unread."""
        cell["mail"].pop(0)
        cell["state"], cell["status"] = out.state, out.status
        unread: list[Any] = []
        if out.state is None:
            self.ended[ident] = "deleted"
            mail, ours = cell["mail"], (program.RECEIPT, program.REJECTED, program.PROGRESS)
            unread = [m for m in mail if m["schema"] in ours]
            fresh = self._born([m for m in mail if m["schema"] not in ours])
            self.cells[ident] = fresh
            if ident[1] and not fresh["mail"]:
                del self.cells[ident]
            cell["mail"] = []
        elif out.status != "running":
            self.ended[ident] = out.status
            entity = program.SPECS[ident[0]].lifecycle == "entity"
            if entity and out.status == "completed" and cell["mail"]:
                cell["status"] = "running"
        self._requeue(ident)
        return unread

    # ---- effects ----------------------------------------------------------------------------

    def _verdict(self, keys: dict[Any, Any], spec: program.Spec, asked: Mapping[str, Any]) -> str:
        if asked["effect"] not in spec.effects:
            return "effect.undeclared"
        params = asked["params"]
        if asked["effect"] == program.CHARGE and type(params["order"]) is not str:
            return "effect.params_invalid"
        key = asked.get("idempotency_key")
        if key is None:
            return "open"
        known = keys.setdefault((asked["effect"], key), {"params": params, "settled": None})
        if known.get("intent") is None and "asked" not in known:
            known["asked"] = True
            return "open"
        return "attach" if known["params"] == params else "effect.key_conflict"

    def _effects(self, ident: Ident, cell: Cell, spec: program.Spec, wanted: Any) -> None:
        opened, denied = [], []
        for asked in wanted:
            verdict = self._verdict(cell["keys"], spec, asked)
            if verdict == "open":
                opened.append((self._open(ident, cell, asked), asked))
            elif verdict == "attach":
                self._attach(ident, cell, asked)
            else:
                record = self.take("IntentDenied", "I6", effect=asked["effect"], code=verdict)
                denied.append((record.intent, asked))
        for intent, asked in denied:
            record = self.take("ReceiptSettled", "I3", intent=intent, status="denied")
            self._deliver(record, ident, self.seq, [asked["issuer_ref"]])
        for intent, asked in opened:
            self._perform(cell, intent, asked)

    def _open(self, ident: Ident, cell: Cell, asked: Mapping[str, Any]) -> bytes:
        record = self.take("IntentOpened", "I3", effect=asked["effect"])
        intent: bytes = record.intent
        self.must(intent not in self.open, "I12", "one id for two intents")
        due = record.timeout_at_ns
        timeout = asked.get("timeout_ns")
        self.must(due == (timeout and self.logical + timeout), "I25", "another timeout was kept")
        if asked["effect"] == program.TIMER:
            due = asked["params"]["deliver_at_ns"]
        key = asked.get("idempotency_key")
        made = {
            "cell": ident,
            "seq": self.seq,
            "effect": asked["effect"],
            "due": due,
            "waiters": [asked["issuer_ref"]],
            "progress": 0,
            "of": cell,
            "key": key,
        }
        self.open[intent] = made
        cell["open"][intent] = asked["issuer_ref"]
        if key is not None:
            cell["keys"][asked["effect"], key]["intent"] = intent
        return intent

    def _attach(self, ident: Ident, cell: Cell, asked: Mapping[str, Any]) -> None:
        known = cell["keys"][asked["effect"], asked["idempotency_key"]]
        self.take("IntentAttached", "I3", intent=known["intent"])
        if known["settled"] is None:
            self.open[known["intent"]]["waiters"].append(asked["issuer_ref"])
        elif ident not in self.ended:
            self._push(ident, 0, *_envelope(known["settled"], asked["issuer_ref"]))

    def _perform(self, cell: Cell, intent: bytes, asked: Mapping[str, Any]) -> None:
        effect = asked["effect"]
        if effect == program.UNDO:
            wanted = asked["params"]["issuer_ref"]
            for other in [i for i, ref in cell["open"].items() if ref == wanted and i != intent]:
                self._settle(other, "cancelled")
            self._settle(intent, "ok")
        elif effect in (program.SPAWN, program.CALL):
            child = (asked["params"]["workflow"], asked["params"]["key"])
            if not self._takes(child):
                self._settle(intent, "error")
                return
            payload = asked["params"]["payload"]
            record = self.take("EventAdmitted", "I3", schema=payload["schema"])
            to = [(target.workflow, target.key) for target in record.to]
            self.must(to == [child], "I4", f"sent to {to}, not to {child}")
            self._push(child, 0, payload["schema"], canon.decode(payload["value"]))
            if effect == program.CALL:
                self.cells[child]["callers"][intent] = None
            else:
                self._settle(intent, "ok")

    def _settle(self, intent: bytes, status: str, record: Any = None) -> str:
        """One terminal receipt, delivered to the cell that asked if it lives."""
        known = self.open.pop(intent)
        if record is None:
            record = self.take("ReceiptSettled", "I3", intent=intent)
        self.must(record.status == status, "I3", f"settled {record.status}, not {status}")
        cell = known["of"]
        cell["open"].pop(intent, None)
        if known["key"] is not None:
            cell["keys"][known["effect"], known["key"]]["settled"] = status
        return self._deliver(record, known["cell"], known["seq"], known["waiters"])

    def _deliver(self, record: Any, ident: Ident, asked_seq: int, refs: Sequence[str]) -> str:
        cell = self.cells.get(ident)
        dead = ident in self.ended or cell is None or cell["born"] > asked_seq
        dead = dead or (cell is not None and cell["status"] in ("completed", "failed"))
        schema, _ = _envelope(record.status, "")
        if dead:
            outcome = "terminal"
        elif schema == program.REJECTED:
            known = schema in program.SPECS[ident[0]].arms
            outcome = "rejected_delivered" if known else "cell_failed"
        else:
            outcome = "delivered"
        self.must(record.outcome == outcome, "I4", f"outcome {record.outcome}, not {outcome}")
        to = [tuple(address) for address in record.to]
        there = outcome in ("delivered", "rejected_delivered")
        self.must(to == [ident] * len(refs) * there, "I4", f"went to {to}, asked by {ident}")
        if there:
            for i, ref in enumerate(refs):
                self._push(ident, i, *_envelope(record.status, ref))
        return outcome

    # ---- ends -------------------------------------------------------------------------------

    def _fail(self, ident: Ident) -> None:
        cell = self.cells[ident]
        self.ended[ident] = cell["status"] = "failed"
        self.ring = [each for each in self.ring if each != ident]
        self._end(ident, cell, "failed")

    def _end(self, ident: Ident, cell: Cell, status: str) -> None:
        record = self.take("EventAdmitted", schema=program.COMPLETED)
        self._route(record, program.COMPLETED, {"workflow": ident[0]})
        self._answer(cell)
        self._cancel_all(cell)
        if status == "failed" or program.SPECS[ident[0]].lifecycle != "entity":
            unread, cell["mail"] = cell["mail"], []
            self._drop(unread)

    def _answer(self, cell: Cell) -> None:
        for intent in [i for i in cell["callers"] if i in self.open]:
            self._settle(intent, "ok")

    def _cancel_all(self, cell: Cell) -> None:
        for intent in list(cell["open"]):
            self._settle(intent, "cancelled")

    def _drop(self, unread: Sequence[Any]) -> None:
        for _ in unread[:16]:
            self.take("Dropped", what="mail")
        if len(unread) > 16:
            self.take("Noted", topic="mail.dropped")

    # ---- mail -------------------------------------------------------------------------------

    def _born(self, mail: list[Any]) -> Cell:
        return {"state": None, "status": "running", "mail": mail, "born": self.seq, "open": {},
                "keys": {}, "callers": {}}  # fmt: skip

    def _takes(self, ident: Ident) -> bool:
        ended = self.ended.get(ident)
        cell = self.cells.get(ident)
        status = ended if ended is not None else "" if cell is None else cell["status"]
        entity = program.SPECS[ident[0]].lifecycle == "entity"
        return status != "failed" and (status != "completed" or entity)

    def _route(self, record: Any, schema: str, value: Mapping[str, Any]) -> None:
        """Deliver an event to its subscribers, in manifest order."""
        wanted, lost = [], []
        for event, workflow, field, create in program.ROUTES:
            if event != schema:
                continue
            ident = (workflow, canon.encode(value[field]) if field else b"")
            missing = ident not in self.cells or self.ended.get(ident) == "deleted"
            if missing and not create:
                lost.append("no_instance")
            elif not missing and not self._takes(ident):
                lost.append("terminal")
            else:
                wanted.append(ident)
        to = [(target.workflow, target.key) for target in record.to]
        self.must(to == wanted, "I17", f"{schema} went to {to}, not to {wanted}")
        for i, ident in enumerate(wanted):
            self._push(ident, i, schema, value)
        for reason in lost:
            self.take("Dropped", what="event", reason=reason)

    def _push(self, ident: Ident, index: int, schema: str, value: Mapping[str, Any]) -> None:
        cell = self.cells.get(ident)
        if cell is None:
            cell = self.cells[ident] = self._born([])
        entry = {"seq": self.seq, "index": index, "schema": schema, "value": value,
                 "now": self.now, "hops": self.hops}  # fmt: skip
        cell["mail"].append(entry)
        if cell["status"] == "completed":
            cell["status"] = "running"
        self._requeue(ident)

    def _requeue(self, ident: Ident) -> None:
        cell = self.cells.get(ident)
        ready = cell is not None and cell["mail"] and cell["status"] == "running"
        if ready and ident not in self.ring:
            self.ring.append(ident)

    def blockers(self) -> list[str]:
        """What stands in the way of quiescence."""
        found = [f"intent {intent.hex()[:8]}" for intent in self.open]
        for (workflow, key), cell in self.cells.items():
            entity = program.SPECS[workflow].lifecycle == "entity"
            rests = cell["status"] in ("completed", "failed") or (
                entity and cell["status"] == "running"
            )
            if cell["mail"] or not rests:
                found.append(f"cell {workflow} {key.hex()}")
        return found


def _envelope(status: str, ref: str) -> tuple[str, dict[str, Any]]:
    if status == "rejected":
        return program.REJECTED, {"issuer_ref": ref}
    return program.RECEIPT, {"issuer_ref": ref, "status": {"$tag": status}}
