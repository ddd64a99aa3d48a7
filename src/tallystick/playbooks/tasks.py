"""A pipeline of tasks as a machine that performs nothing (07 section 4).

Theory of operation.
`act` says what to do next: perform a task, wait, or stop with a result or an error.
`settle` is told the outcome of the task and applies its policy.
All that the machine knows is its frame, a plain map, so that a run can be put down after any task
and taken up elsewhere: the cell plays pipelines of tasks that need nobody, the worker all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.playbooks.render import fill, holds, passed
from tallystick.playbooks.values import Scope
from tallystick.values.expr import ExpressionFault

DELAY_MAX_S: Final = 3600.0
NOTES_MAX: Final = 64
RETRYABLE: Final = frozenset(
    ("connection", "timeout", "rate_limit", "server_error", "db_deadlock", "db_connection")
)


class Perform(NamedTuple):
    """One attempt at a task: its inputs and args are rendered."""

    name: str
    kind: str
    inputs: dict[str, Any]
    args: dict[str, Any]
    attempt: int
    visit: int
    timeout_ns: int | None


class Pause(NamedTuple):
    """Wait before the next attempt."""

    seconds: float


class Done(NamedTuple):
    """The pipeline is over and well."""

    result: Any


class Broken(NamedTuple):
    """The pipeline failed."""

    error: dict[str, Any]


Act = Perform | Pause | Done | Broken


def failure(kind: str, code: str, message: str, **more: Any) -> dict[str, Any]:
    """An error as outcomes and events carry it."""
    return {
        "kind": kind,
        "code": code,
        "message": message[:1000],
        "retryable": more.pop("retryable", kind in RETRYABLE),
        **more,
    }


def new_frame(iteration: Mapping[str, Any]) -> dict[str, Any]:
    """The frame of a run that has not begun."""
    return {
        "pc": 0,
        "prev": None,
        "results": {},
        "last": None,
        "iter": dict(iteration),
        "attempt": 1,
        "visits": {},
        "ctx": {},
        "runs": 0,
        "pause": None,
        "notes": [],
        "end": None,
    }


class Pipeline:
    """The tasks of one step-run or iteration over a frame.

    `layers` are the scopes around it: `fixed` names, args, steps, ctx, workload.
    """

    def __init__(
        self, step: Mapping[str, Any], frame: dict[str, Any], layers: Layers, runs_max: int
    ) -> None:
        self.tasks: list[dict[str, Any]] = step["tool"]
        self.defaults: Mapping[str, Any] = step.get("args", {})
        self.frame = frame
        self.layers = layers
        self.runs_max = runs_max
        self.timeout_ns: int | None = step.get("timeout_ns")

    def act(self) -> Act:
        """What to do next."""
        frame = self.frame
        if frame["end"] is not None:
            return _ended(frame["end"])
        if frame["pause"] is not None:
            seconds, frame["pause"] = frame["pause"], None
            return Pause(seconds)
        if frame["pc"] >= len(self.tasks):
            return self._end({"result": frame["last"]})
        if frame["runs"] >= self.runs_max:
            message = f"over {self.runs_max} runs of tasks"
            return self._end({"error": failure("unknown", "P403", message)})
        return self._perform(self.tasks[frame["pc"]])

    def _perform(self, task: Mapping[str, Any]) -> Act:
        frame = self.frame
        name = task["name"]
        visits = frame["visits"]
        if frame["attempt"] == 1 and name not in visits:
            visits[name] = 1
        try:
            # Defaults of the step and args of the task are seen by inputs as `args` are not:
            # they are what the tool is given.
            scope = self.scope(name)
            args = passed({**self.defaults, **task.get("args", {})}, scope)
            inputs = _render(task, scope)
        except ExpressionFault as why:
            self.settle(_expression(why))
            return self.act()
        lacking = [word for word in task.get("required", ()) if args.get(word) is None]
        if lacking:
            message = f"{name} needs the argument {', '.join(lacking)}"
            error = failure("client_error", "P111", message)
            self.settle({"status": "error", "error": error})
            return self.act()
        timeout = task.get("timeout_ns") or self.timeout_ns
        return Perform(name, task["kind"], inputs, args, frame["attempt"], visits[name], timeout)

    def settle(self, outcome: dict[str, Any]) -> None:
        """Take the outcome of the task that `act` asked for, and apply the task's policy."""
        frame = self.frame
        task = self.tasks[frame["pc"]]
        frame["runs"] += 1
        outcome = {"result": None, "error": None, **outcome}
        outcome["meta"] = {"attempt": frame["attempt"], **outcome.get("meta", {})}
        good = outcome["status"] == "ok"
        if good:
            frame["results"][task["name"]] = outcome["result"]
            frame["last"] = outcome["result"]
        try:
            rule = self._rule(task, outcome)
            self._patch(rule, task["name"], outcome)
        except ExpressionFault as why:
            frame["end"] = {"error": _expression(why)["error"]}
            return
        try:
            self._direct(task, rule, outcome)
        except ExpressionFault as why:
            frame["end"] = {"error": _expression(why)["error"]}

    def _rule(self, task: Mapping[str, Any], outcome: dict[str, Any]) -> dict[str, Any]:
        """The first rule that matches; without a policy an error fails and a success goes on."""
        if "rules" not in task:
            return {"do": "continue" if outcome["status"] == "ok" else "fail"}
        scope = self.scope(task["name"], outcome)
        for rule in task["rules"]:
            if holds(rule.get("when", True), scope)[0]:
                return dict(rule)
        return {"do": "continue"}

    def _patch(self, rule: dict[str, Any], name: str, outcome: dict[str, Any]) -> None:
        """Patches are applied before the directive and see the scopes as they were."""
        scope = self.scope(name, outcome)
        ctx = fill(rule.get("set_ctx", {}), scope)
        iteration = fill(rule.get("set_iter", {}), scope)
        self.frame["ctx"].update(ctx)
        self.frame["iter"].update(iteration)

    def _direct(
        self, task: Mapping[str, Any], rule: dict[str, Any], outcome: dict[str, Any]
    ) -> None:
        frame, do, name = self.frame, rule["do"], task["name"]
        good = outcome["status"] == "ok"
        if do == "retry" and frame["attempt"] < (rule.get("attempts") or 3):
            frame["pause"] = self._delay(rule, name, outcome)
            frame["attempt"] += 1
            return
        self._note(name, outcome)
        # Old errors of a task that got past them do not count against its next visit.
        frame["attempt"] = 1
        if do in ("retry", "fail"):
            error = outcome["error"] or failure("unknown", "task.failed", f"{name} chose to fail")
            frame["end"] = {"error": {**error, "task": name}}
            return
        if good:
            frame["prev"] = outcome["result"]
        if do == "break":
            frame["end"] = {"result": frame["last"]}
        elif do == "jump":
            names = [each["name"] for each in self.tasks]
            frame["pc"] = names.index(rule["to"])
            frame["visits"][rule["to"]] = frame["visits"].get(rule["to"], 0) + 1
        else:
            frame["pc"] += 1

    def _delay(self, rule: dict[str, Any], name: str, outcome: dict[str, Any]) -> float:
        given = rule.get("delay", 1)
        if isinstance(given, str):
            given = fill(given, self.scope(name, outcome))
        try:
            delay = max(0.0, float(given or 0))
        except (TypeError, ValueError):
            message = f"{given!r} is not a delay"
            raise ExpressionFault(message, code="P205") from None
        n = self.frame["attempt"]
        times = {"linear": n, "exponential": 2 ** min(n - 1, 32)}.get(rule.get("backoff", ""), 1)
        return float(min(delay * times, DELAY_MAX_S))

    def _note(self, name: str, outcome: dict[str, Any]) -> None:
        notes: list[dict[str, Any]] = self.frame["notes"]
        if len(notes) < NOTES_MAX:
            row = {"name": name, "attempts": self.frame["attempt"], "status": outcome["status"]}
            spent = outcome["meta"].get("duration_ms")
            notes.append(row if spent is None else {**row, "ms": spent})

    def _end(self, end: dict[str, Any]) -> Act:
        self.frame["end"] = end
        return _ended(end)

    def scope(self, name: str, outcome: dict[str, Any] | None = None) -> Scope:
        """The names that a task sees; `outcome` only in its policy."""
        frame, around = self.frame, self.layers
        ctx = Scope(frame["ctx"], around.ctx)
        inner = {
            **around.fixed,
            "ctx": ctx,
            "args": around.args,
            "_prev": frame["prev"],
            "_task": name,
            "_attempt": frame["attempt"],
            "results": frame["results"],
        }
        if frame["iter"]:
            inner["iter"] = frame["iter"]
            inner["loop_index"] = frame["iter"].get("index")
        if outcome is not None:
            inner["outcome"] = outcome
        layers = (around.args, frame["iter"], frame["results"], around.steps, ctx, around.workload)
        return Scope(inner, *layers)


class Layers(NamedTuple):
    """The scopes around a pipeline."""

    fixed: Mapping[str, Any]
    args: Mapping[str, Any]
    steps: Mapping[str, Any]
    ctx: Mapping[str, Any]
    workload: Mapping[str, Any]


def _render(task: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    inputs = dict(task["inputs"])
    code = {word: inputs.pop(word) for word in ("code", "code_b64") if word in inputs}
    made: dict[str, Any] = fill(inputs, scope)
    return {**made, **code}


def _expression(why: ExpressionFault) -> dict[str, Any]:
    return {"status": "error", "error": failure("expression", why.code, why.message)}


def _ended(end: dict[str, Any]) -> Act:
    return Broken(end["error"]) if "error" in end else Done(end["result"])
