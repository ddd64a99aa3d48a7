"""The net of one execution: tokens, runs, groups, counts (07 section 7).

Everything here is bookkeeping over the plain state of the cell; what a step does and where its
tokens go is decided in `play`.
After every tick: created = consumed + absorbed + discarded + live.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.playbooks.plan import Plan
from tallystick.playbooks.values import Kept, Values

ROOT: Final = "g0"
TRACE_MAX: Final = 512
PAGE: Final = 64  # results of iterations that stand in the state before they become a blob
FAILURES_MAX: Final = 32


# tidy: every field of a state, with its first value.
def new_state(execution: str, workload: Kept) -> dict[str, Any]:
    """The state of an execution that has not begun."""
    return {
        "execution": execution,
        "phase": "running",
        "status": None,
        "workload": workload,
        "ctx": {},
        "tokens": {},
        "ready": [],
        "runs": {},
        "groups": {ROOT: _group(None, None)},
        "results": {},
        "signals": {},
        "ids": {"t": 0, "r": 0, "g": 0},
        "counts": {
            "created": 0,
            "consumed": 0,
            "absorbed": 0,
            "discarded": 0,
            "failed": 0,
            "handled": 0,
            "iterations": {},
            "step_runs": {},
            "ended": 0,
            "no_match": 0,
            "branch_failed": 0,
            "soft": 0,
        },
        "failures": [],
        "doom": None,
        "final": None,
        "last": None,
    }


def _group(parent: str | None, split: str | None) -> dict[str, Any]:
    """A group without members; `ended` and `failed` count branches that are over."""
    counts = {"live": 0, "ended": 0, "failed": 0}
    return {"parent": parent, "split": split, **counts, "joins": {}}


class Net:
    """The marking of an execution and the ways it may change."""

    def __init__(
        self, state: dict[str, Any], loops: dict[str, Any], plan: Plan, values: Values
    ) -> None:
        self.state = state
        # Of each loop what every iteration changes; it stands apart so that the rest may stay.
        self.loops = loops
        self.plan = plan
        self.values = values
        self.trace: list[dict[str, Any]] = []
        # What changed in this tick: names that gates may read.
        self.changed: dict[str, None] = {}

    def note(self, event: str, **more: Any) -> None:
        """Tell one event of the net; beyond a bound only their number is told."""
        if len(self.trace) < TRACE_MAX:
            self.trace.append({"event": event, **more})
        elif "more" in self.trace[-1]:
            self.trace[-1]["more"] += 1
        else:
            self.trace.append({"event": "trace.more", "more": 1})

    def _id(self, letter: str) -> str:
        self.state["ids"][letter] += 1
        return f"{letter}{self.state['ids'][letter]}"

    # ---- tokens -----------------------------------------------------------------------------

    def token(self, step: str, group: str, made: Mapping[str, Any]) -> str:
        """A new token for a step; `made` says by whom and with which args."""
        name = self._id("t")
        self.state["tokens"][name] = {"step": step, "group": group, "at": "runnable", **made}
        self.state["ready"].append(name)
        self.state["counts"]["created"] += 1
        self.live(group, 1)
        self.note("token.enqueued", token=name, step=step, group=group)
        return name

    def consume(self, names: list[str], run: str) -> None:
        """Tokens that a run takes; it stands for them in their group until it ends."""
        for name in names:
            token = self.state["tokens"].pop(name)
            self.state["counts"]["consumed"] += 1
            self.live(token["group"], -1)
            self.note("token.consumed", token=name, step=token["step"], run=run)

    def drop(self, name: str, how: str, why: str = "") -> None:
        """A token that ends without a run: absorbed by a join, or discarded."""
        token = self.state["tokens"].pop(name)
        self.state["counts"][how] += 1
        self.live(token["group"], -1)
        self.note(f"token.{how}", token=name, step=token["step"], why=why)

    # ---- groups -----------------------------------------------------------------------------

    def live(self, group: str, change: int) -> None:
        """Count tokens and runs of a group and of all groups around it; close an empty one."""
        groups = self.state["groups"]
        at: str | None = group
        while at is not None:
            row = groups[at]
            row["live"] += change
            parent = row["parent"]
            if row["live"] == 0 and at != ROOT and change < 0:
                row["closing"] = True
            at = parent

    def close_groups(self) -> None:
        """Forget the groups that nobody is in any more."""
        groups = self.state["groups"]
        empty = [name for name, row in groups.items() if "closing" in row and row["live"] == 0]
        for name in empty:
            del groups[name]
            self.note("group.closed", group=name)

    def split(self, group: str, step: str) -> str:
        """A new group of the tokens that a router emits together."""
        name = self._id("g")
        self.state["groups"][name] = _group(group, step)
        self.note("group.opened", group=name, step=step)
        return name

    def branch_over(self, group: str, how: str) -> None:
        """A branch is over without another token: the groups around it count it."""
        for name in (*self.around(group), ROOT):
            self.state["groups"][name][how] += 1

    def around(self, group: str) -> list[str]:
        """A group and those around it, innermost first, without the execution itself."""
        found: list[str] = []
        at: str | None = group
        while at is not None and at != ROOT:
            found.append(at)
            at = self.state["groups"][at]["parent"]
        return found

    def inside(self, group: str, outer: str) -> bool:
        """True when a group is another one or lies in it."""
        return outer == ROOT or outer in self.around(group)

    def end_run(self, name: str) -> dict[str, Any]:
        """A run that is over; the iterations that its loop began are counted."""
        run: dict[str, Any] = self.state["runs"].pop(name)
        loop = self.loops.pop(name, None)
        if loop is not None:
            counts = self.state["counts"]["iterations"]
            counts[run["step"]] = counts.get(run["step"], 0) + loop["next"]
        return run

    # ---- ctx, results, failures -------------------------------------------------------------

    def set_ctx(self, patch: Mapping[str, Any], by: str) -> None:
        """Write keys of ctx; who wrote each is on record."""
        for key, value in patch.items():
            kept = self.values.keep(value)
            if self.state["ctx"].get(key, {}).get("v") == kept:
                continue
            self.state["ctx"][key] = {"v": kept, "by": by}
            self.changed[key] = None
            self.note("ctx.patched", key=key, by=by)
        if patch:
            self.changed["ctx"] = None

    def fail(self, step: str, run: str, error: Mapping[str, Any], *, handled: bool) -> None:
        """Note a failed run."""
        state = self.state
        state["counts"]["failed"] += 1
        state["counts"]["handled"] += handled
        if len(state["failures"]) < FAILURES_MAX:
            kept = {k: error.get(k) for k in ("kind", "code", "message")}
            state["failures"].append({"step": step, "run": run, "handled": handled, **kept})

    def doom(self, code: str, message: str) -> None:
        """The execution will fail whatever the status policy says; the first reason is kept."""
        if self.state["doom"] is None:
            self.state["doom"] = {"code": code, "message": message[:1000]}
            self.note("routing.error" if code == "P401" else "execution.doomed", code=code)
