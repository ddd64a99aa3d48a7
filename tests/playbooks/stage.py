"""An execution without a node: ticks in, answers out, with the worker's own pipeline machine.

Every tick goes through the schemas of the kernel's lane, from bytes to bytes, and the token
equation is checked after each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallystick.playbooks.document import load
from tallystick.playbooks.interpret import Answer, interpret
from tallystick.playbooks.play import STEP, TIMER, Asked
from tallystick.playbooks.trace import events_of, put_trace
from tallystick.playbooks.written import whole_of
from tallystick.values import canon

Worker = Callable[[dict[str, Any]], Any]


def done(result: Any = None, **more: Any) -> dict[str, Any]:
    """A receipt of a step that went well."""
    empty: dict[str, Any] = {"ref": None, "size": 0, "error": None, "patches": {}, "results": {}}
    return {
        "status": "ok",
        "result": result,
        "tasks": [],
        **empty,
        "frame": None,
        "wish": None,
    } | more


def broken(code: str = "boom", kind: str = "unknown") -> dict[str, Any]:
    """A receipt of a step that failed."""
    error = {"kind": kind, "code": code, "message": code, "retryable": False}
    return done(status="error", error=error)


def in_order(state: dict[str, Any]) -> dict[str, Any]:
    """A state whose pages are sorted: their rows have no order of their own."""
    loops = {
        name: {**loop, "page": sorted(loop["page"], key=lambda row: row[0])}
        for name, loop in state["loops"].items()
    }
    return {**state, "loops": loops}


class Stage:
    """One execution; open effects wait in `open` until they are settled."""

    def __init__(self, text: str, *, workload: Any = None, name: str = "e1") -> None:
        self.blobs: dict[str, bytes] = {}
        self.state: bytes | None = None
        self.now_ns = 1_000
        self.open: dict[str, Asked] = {}
        self.trace: list[dict[str, Any]] = []
        self.ticks: list[tuple[bytes | None, dict[str, Any], int, bytes]] = []
        self.answer: Answer
        request = {
            "execution": name,
            "document": load(text, unchecked=True).bytes,
            "workload": workload or {},
        }
        self.take("Requested", {**request, "grants": {}, "principal": "ana", "parent": None})

    def take(self, tag: str, value: dict[str, Any]) -> Answer:
        """One tick."""
        event = {"$tag": tag, "$value": value}
        before = None if self.state is None else canon.decode(self.state)
        self.now_ns += 1
        self.answer = interpret(before, event, self.now_ns, self.blobs.__getitem__)
        self.blobs |= self.answer.blobs
        after = self.answer.wrote.data
        assert canon.encode(canon.decode(after)) == after, "the state is canonical"
        read = whole_of(canon.decode(after), self.blobs.__getitem__)
        assert in_order(read) == in_order(self.answer.wrote.state), "what was kept is written"
        assert events_of(put_trace(self.answer.trace)) == self.answer.trace
        self.ticks.append((self.state, event, self.now_ns, after))
        self.state = after
        self.trace += self.answer.trace
        for asked in self.answer.asked:
            if asked.effect != "sys/effect.cancel@1":
                self.open[asked.ref] = asked
            else:
                self.open.pop(asked.params["issuer_ref"], None)
        self.check()
        return self.answer

    def check(self) -> None:
        """created = consumed + absorbed + discarded + live; nobody is counted in a closed group."""
        counts = self.net["counts"]
        gone = counts["consumed"] + counts["absorbed"] + counts["discarded"]
        assert counts["created"] == gone + len(self.net["tokens"])
        inside = len(self.net["tokens"]) + len(self.net["runs"])
        assert self.net["groups"]["g0"]["live"] == inside

    @property
    def net(self) -> dict[str, Any]:
        net: dict[str, Any] = self.answer.net
        return net

    def settle(self, ref: str, receipt: Any, status: str = "ok") -> Answer:
        """Settle one open effect."""
        asked = self.open.pop(ref)
        value = {
            "issuer_ref": ref,
            "effect": asked.effect,
            "status": {"$tag": status},
            "receipt_payload": canon.encode(receipt),
        }
        return self.take("Receipt", value)

    def play(self, worker: Worker | None = None, most: int = 10_000) -> Stage:
        """Settle what is open, oldest first, until nothing is."""
        for _ in range(most):
            steps = [ref for ref, asked in self.open.items() if asked.effect == STEP]
            if steps:
                params = self.open[steps[0]].params
                self.settle(steps[0], done() if worker is None else worker(params))
                continue
            timers = [ref for ref, asked in self.open.items() if asked.effect == TIMER]
            timers = [ref for ref in timers if ref != "deadline"]
            if not timers:
                return self
            ref = min(timers, key=lambda each: self.open[each].params["deliver_at_ns"])
            due = self.open[ref].params["deliver_at_ns"]
            self.now_ns = max(self.now_ns, due)
            self.settle(ref, {"delivered_at_ns": due, "key": None})
        raise AssertionError("it never ends")

    def patch(self, **keys: Any) -> Answer:
        """An operator's patch of ctx."""
        given = {"set": keys, "unset": [], "reason": "checked", "principal": "ana"}
        return self.take("Patched", {"execution": "e1", **given})

    def told(self, event: str) -> list[dict[str, Any]]:
        """The events of one name so far."""
        return [each for each in self.trace if each["event"] == event]

    def replays(self) -> bool:
        """Every tick again from its bytes gives the same bytes."""
        for before, event, now_ns, after in self.ticks:
            state = None if before is None else canon.decode(before)
            again = interpret(state, event, now_ns, self.blobs.__getitem__)
            if again.wrote.data != after:
                return False
        return True
