"""Playing a net: gates, runs, loops and their units, one tick at a time (07 sections 4 to 7).

Theory of operation.
A *unit* is what is performed as one: a step-run, or one iteration of a loop.
It is played here when its pipeline asks nobody, and by a worker through one effect otherwise.
Each request of a unit has a reference of its own, so that a late receipt finds nobody.
In a tick: patches, step `set_ctx`, gates, arcs, new tokens, joins, then quiescence; route first,
judge last.
"""

# tidy: the life of a run, from the token to its end, is one story.
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.playbooks import child, ends, files, joins, requests, routes
from tallystick.playbooks.net import Net
from tallystick.playbooks.render import holds, passed
from tallystick.playbooks.tasks import (
    Broken,
    Done,
    Layers,
    Pause,
    Perform,
    Pipeline,
    failure,
    new_frame,
)
from tallystick.playbooks.values import Kept, Lazy, Scope, StepValue
from tallystick.values.expr import ExpressionFault

STEP: Final = "sys/playbook.step@1"
TIMER: Final = "sys/timer.set@1"
ASK: Final = "sys/human.ask@1"
CANCEL: Final = "sys/effect.cancel@1"
EFFECTS_MAX: Final = 60  # of the kernel's 64 in one tick: the rest is for timers and cancels
RUNS_MAX: Final = 256  # that a tick plays by itself before others have their turn
WAKE: Final = "wake"
DEADLINE: Final = "deadline"


class Asked(NamedTuple):
    """An effect that the execution asks for."""

    effect: str
    params: dict[str, Any]
    ref: str
    timeout_ns: int | None = None


class Play:
    """One tick of one execution."""

    def __init__(self, net: Net, now_ns: int, doc: str) -> None:
        self.net = net
        self.state = net.state
        self.plan = net.plan
        self.values = net.values
        self.now_ns = now_ns
        self.doc = doc
        self.asked: list[Asked] = []
        self.ended: list[str] = []  # children that nobody waits for any more
        self.played = 0
        self.held_back = False  # a bound on what one tick plays by itself was met

    # ---- scopes -----------------------------------------------------------------------------

    def fixed(self) -> dict[str, Any]:
        """The names that are the same everywhere in an execution."""
        name = self.state["execution"]
        workload = self.values.read(self.state["workload"])
        return {"workload": workload, "execution_id": name, "job": {"uuid": name}}

    def ctx(self) -> Mapping[str, Any]:
        """The execution's variables."""
        return Lazy({k: row["v"] for k, row in self.state["ctx"].items()}, self.values)

    def steps(self) -> Mapping[str, Any]:
        """The results of steps by name, each read when asked for."""
        return _Results(self.state["results"], self)

    def scope(self, args: Mapping[str, Any], **more: Any) -> Scope:
        """The names that gates, arcs and loops see."""
        fixed, ctx = self.fixed(), self.ctx()
        inner = {**fixed, "ctx": ctx, "args": args, **more}
        return Scope(inner, args, self.steps(), ctx, fixed["workload"])

    def read(self, kept: Kept | None) -> Any:
        """A kept value, or an empty map."""
        return {} if kept is None else self.values.read(kept)

    # ---- the tick ---------------------------------------------------------------------------

    def drain(self) -> None:
        """Play until nothing is left that can go on now."""
        while self._turn() or joins.fire(self) or self._gates():
            pass
        self.net.close_groups()
        if self.held_back:
            # What needs nobody went on for long: others have a turn before this goes on.
            self.held_back = False
            self.asked.append(Asked(TIMER, {"deliver_at_ns": self.now_ns, "key": None}, WAKE))
        ends.judge(self)
        self.net.close_groups()

    def _turn(self) -> bool:
        """Start what is ready; False when nothing was."""
        moved = False
        ready = self.state["ready"]
        while ready and len(self.asked) < EFFECTS_MAX and self.played < RUNS_MAX:
            moved = True
            self._take(ready.pop(0))
        self.held_back = bool(ready) and self.played >= RUNS_MAX
        for run in list(self.state["runs"]):
            if len(self.asked) >= EFFECTS_MAX:
                break
            moved = self._fill_loop(run) or moved
        return moved

    def _take(self, name: str) -> None:
        token = self.state["tokens"].get(name)
        if token is None:
            return
        # A gate that has let a token in is not asked again.
        verdict = token.pop("admitted", False) or self._admit(name, token)
        if verdict is None:
            return
        if not verdict:
            self._deny(name, token)
            return
        step = self.plan.steps[token["step"]]
        if "join" in step and not token.get("final"):
            token["at"] = "joining"
            joins.arrive(self, name, token)
        else:
            self.begin(token["step"], [name], token["group"], self.read(token.get("args")))

    # ---- gates ------------------------------------------------------------------------------

    def _admit(self, name: str, token: Mapping[str, Any]) -> bool | None:
        """Whether the gate lets a token in; None when its rules cannot be evaluated."""
        step = self.plan.steps[token["step"]]
        rules = step.get("admit")
        if rules is None:
            return True
        args = self.read(token.get("args"))
        try:
            scope = self.scope(args, event=self.read(token.get("event")))
            for i, rule in enumerate(rules):
                if holds(rule.get("when", True), scope)[0]:
                    self._verdict(name, token, i, allow=rule["allow"])
                    return bool(rule["allow"])
        except ExpressionFault as why:
            error = failure("expression", why.code, why.message)
            run = self._open_run(token["step"], [name], token["group"], token.get("args"))
            routes.finish(self, run, None, error)
            return None
        self._verdict(name, token, None, allow=False)
        return False

    def _verdict(
        self, name: str, token: Mapping[str, Any], rule: int | None, *, allow: bool
    ) -> None:
        # Only a changed verdict is told: a gate may be asked at every patch.
        if allow or token["at"] != "pending":
            more = {"token": name, "step": token["step"], "rule": rule, "allow": allow}
            self.net.note("policy.admit.evaluated", **more)

    def _deny(self, name: str, token: dict[str, Any]) -> None:
        step = self.plan.steps[token["step"]]
        if step.get("admit_denied", self.plan.spec["admit_denied"]) == "discard":
            self.net.drop(name, "discarded", "denied")
        else:
            token["at"] = "pending"
            token["waits"] = sorted(self.plan.gate_reads(token["step"]))

    def _gates(self) -> bool:
        """Ask the gates again whose names have changed."""
        changed, self.net.changed = self.net.changed, {}
        if not changed:
            return False
        moved = False
        for name, token in list(self.state["tokens"].items()):
            if token["at"] == "pending" and any(word in changed for word in token["waits"]):
                if self._admit(name, token):
                    token["at"] = "runnable"
                    token["admitted"] = True
                    self.state["ready"].append(name)
                moved = True
        return moved

    # ---- runs -------------------------------------------------------------------------------

    def _open_run(self, step: str, tokens: list[str], group: str, args: Kept | None) -> str:
        """A run that has taken its tokens."""
        self.state["ids"]["r"] += 1
        name = f"r{self.state['ids']['r']}"
        counts = self.state["counts"]["step_runs"]
        counts[step] = counts.get(step, 0) + 1
        final = any(self.state["tokens"][token].get("final") for token in tokens)
        self.state["runs"][name] = {
            "step": step,
            "group": group,
            "args": args,
            "open": {},
            **({"final": True} if final else {}),
        }
        self.net.live(group, 1)
        self.net.consume(tokens, name)
        self.net.note("step.scheduled", step=step, run=name)
        return name

    # tidy: a run from its tokens to its first unit.
    def begin(
        self,
        step: str,
        tokens: list[str],
        group: str,
        args: Mapping[str, Any],
        join: Mapping[str, Any] | None = None,
    ) -> None:
        """Run a step with these tokens; `join` is what a join has seen when it fired."""
        self.played += 1
        run = self._open_run(step, tokens, group, self.values.keep(dict(args)) if args else None)
        if join is not None:
            self.state["runs"][run]["join"] = self.values.keep(dict(join))
        total = self.state["ids"]["r"]  # every run has a number of its own
        if total > self.plan.spec["limits"]["max_step_runs"] and self.state["phase"] == "running":
            ends.stop(self, "P403", f"over {self.plan.spec['limits']['max_step_runs']} step-runs")
            return
        loop = self.plan.steps[step].get("loop")
        if loop is None:
            self._unit(run, None, {})
            return
        try:
            items = self._items(loop, self.scope(args, **self.joined(self.state["runs"][run])))
        except ExpressionFault as why:
            routes.finish(self, run, None, failure("expression", why.code, why.message))
            return
        held = {"items": self.values.keep(items), "n": len(items), "pages": [], "writes": {}}
        self.state["runs"][run]["loop"] = held
        self.net.loops[run] = {"next": 0, "ok": 0, "failed": 0, "open": [], "page": []}
        self.net.note("loop.started", step=step, run=run, n=len(items))
        if not items:
            routes.finish_loop(self, run)
        else:
            self._fill_loop(run)

    def joined(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """The name `join` for a run of a join."""
        return {"join": self.values.read(run["join"])} if "join" in run else {}

    def _items(self, loop: Mapping[str, Any], scope: Scope) -> list[Any]:
        items = passed(loop["in"], scope)
        if items is None:
            return []
        if not isinstance(items, list):
            raise ExpressionFault("loop.in is not a list", code="P209")
        if len(items) > self.plan.spec["limits"]["max_loop_items"]:
            raise ExpressionFault("loop.in has too many items", code="P403")
        return items

    def _fill_loop(self, name: str) -> bool:
        """Start iterations while the loop has room for them."""
        run = self.state["runs"].get(name)
        if run is None or "loop" not in run:
            return False
        rules, n = self.plan.steps[run["step"]]["loop"], run["loop"]["n"]
        at = self.net.loops[name]
        if at["next"] >= n or self._in_flight(name) >= rules["max_in_flight"]:
            return False
        items = self.values.read(run["loop"]["items"])
        moved = False
        while at["next"] < n and self._in_flight(name) < rules["max_in_flight"]:
            if len(self.asked) >= EFFECTS_MAX:
                break
            if self.played >= 4 * RUNS_MAX:
                self.held_back = True
                break
            i = at["next"]
            at["next"] += 1
            self.played += 1
            self._unit(name, i, requests.own_iter(self.state, rules, items, i))
            moved = True
            if name not in self.state["runs"]:
                break
        return moved

    def _in_flight(self, name: str) -> int:
        return len(self.net.loops[name]["open"]) + len(self.state["runs"][name]["open"])

    # ---- units ------------------------------------------------------------------------------

    def _unit(self, name: str, i: int | None, iteration: Mapping[str, Any]) -> None:
        run = self.state["runs"][name]
        frame = new_frame(iteration)
        if self.plan.is_own(run["step"]):
            self._own(name, i, frame)
            return
        if i is None:
            run["open"][ref_of(name, None, 1)] = {"i": None, "k": 1}
        else:
            # What is open in a loop is a list of numbers: it is written down at every tick.
            self.net.loops[name]["open"].append(i)
        self.dispatch(name, i, 1, None, iteration)

    def dispatch(
        self,
        name: str,
        i: int | None,
        k: int,
        resume: dict[str, Any] | None,
        iteration: Mapping[str, Any],
    ) -> None:
        """Ask for a worker to play a unit, with only the names that its pipeline reads."""
        run = self.state["runs"][name]
        params = requests.params_of(self.state, self.plan, self.doc, name)
        params |= {"iteration": i, "iter": dict(iteration), "resume": resume}
        self.asked.append(
            Asked(STEP, params, ref_of(name, i, k), self.plan.timeout_of(run["step"]))
        )
        if i is not None and k == 1:
            self.net.note("loop.iteration.scheduled", run=name, iteration=i)

    def _own(self, name: str, i: int | None, frame: dict[str, Any], k: int = 0) -> None:
        """Play a unit here, as far as it goes without asking anybody."""
        run = self.state["runs"][name]
        step = self.plan.steps[run["step"]]
        args = self.read(run["args"])
        fixed = self.fixed() | self.joined(run)
        layers = Layers(fixed, args, self.steps(), self.ctx(), fixed["workload"])
        pipeline = Pipeline(step, frame, layers, self.plan.spec["limits"]["max_task_runs"])
        while True:
            act = pipeline.act()
            if isinstance(act, Done | Broken):
                error = act.error if isinstance(act, Broken) else None
                result = act.result if isinstance(act, Done) else None
                routes.settle_unit(self, name, i, Settled(result, error, frame))
                return
            if isinstance(act, Perform) and act.kind == "noop":
                pipeline.settle({"status": "ok", "result": None})
                continue
            self.wait(name, {"i": i, "k": k, "frame": frame, "wish": wish_of(act)})
            return

    def wait(self, name: str, unit: dict[str, Any]) -> None:
        """Put a unit down until a timer, a person, a child or a signal takes it up again."""
        run, wish = self.state["runs"][name], unit["wish"]
        unit["k"] += 1
        ref = ref_of(name, unit["i"], unit["k"])
        run["open"][ref] = unit
        if wish["kind"] == "wait":
            unit["wish"] = wish = {**wish, "since_ns": self.now_ns}
        if wish["kind"] == "signal" and self._signal(ref, run["open"][ref], wish):
            return
        if wish["kind"] in ("child", "file"):
            asking = child.ask if wish["kind"] == "child" else files.ask
            outcome = asking(self, name, ref, unit)
            if outcome is not None:
                self.resume(ref, unit, outcome)
            return
        try:
            self.asked += ends.request_of(self, ref, wish)
        except ExpressionFault as why:
            error = failure("expression", why.code, why.message)
            self.resume(ref, unit, {"status": "error", "error": error})

    def _signal(self, ref: str, unit: dict[str, Any], wish: dict[str, Any]) -> bool:
        waiting = self.state["signals"].get(wish["name"])
        if not waiting:
            return False
        value = self.values.read(waiting.pop(0))
        self.resume(ref, unit, {"status": "ok", "result": value})
        return True

    def resume(self, ref: str, unit: dict[str, Any], outcome: dict[str, Any]) -> None:
        """Take a unit up again with the outcome of what it waited for."""
        name = ref.partition("#")[0].partition("/")[0]
        run = self.state["runs"][name]
        del run["open"][ref]
        frame, i, k = unit["frame"], unit["i"], unit["k"]
        paused = unit["wish"]["kind"] == "pause"
        if self.plan.is_own(run["step"]):
            if not paused:
                step = self.plan.steps[run["step"]]
                args = self.read(run["args"])
                fixed = self.fixed() | self.joined(run)
                layers = Layers(fixed, args, self.steps(), self.ctx(), fixed["workload"])
                Pipeline(step, frame, layers, self.plan.spec["limits"]["max_task_runs"]).settle(
                    outcome
                )
            self._own(name, i, frame, k)
            return
        run["open"][ref_of(name, i, k + 1)] = {"i": i, "k": k + 1}
        resume = {"frame": frame, "outcome": None if paused else outcome}
        self.dispatch(name, i, k + 1, resume, frame["iter"])

    # ---- ending what runs -------------------------------------------------------------------

    def cancel_units(self, name: str) -> None:
        """Nobody waits for the open units of a run any more."""
        run = self.state["runs"][name]
        plain = self.net.loops.get(name, {"open": []})["open"]
        refs = [*(ref_of(name, i, 1) for i in plain), *sorted(run["open"])]
        for unit in run["open"].values():
            if "child" in unit.get("wish", {}):
                self.ended.append(unit["wish"]["child"])
        # What the kernel would not take is left open: its receipts find nobody.
        for ref in refs[: max(0, 63 - len(self.asked))]:
            params = {"intent": None, "issuer_ref": ref}
            self.asked.append(Asked(CANCEL, params, f"cancel {ref}"))

    def cancel_run(self, name: str) -> None:
        """End a run without a result and without routing."""
        self.cancel_units(name)
        run = self.net.end_run(name)
        self.net.live(run["group"], -1)
        self.net.note("step.cancelled", step=run["step"], run=name)

    def fail_tokens(self, step: str, tokens: list[str], group: str, error: dict[str, Any]) -> None:
        """A run that fails before it begins."""
        run = self._open_run(step, tokens, group, None)
        routes.finish(self, run, None, error)


class Settled(NamedTuple):
    """How a unit ended: its result or error, and the frame with its patches and results."""

    result: Any
    error: dict[str, Any] | None
    frame: dict[str, Any]
    kept: Kept | None = None


class _Results(Mapping[str, Any]):
    """The latest result of each step, with the fallbacks of step names."""

    __slots__ = ("_play", "_rows")

    def __init__(self, rows: Mapping[str, Any], play: Play) -> None:
        self._rows = rows
        self._play = play

    def __getitem__(self, name: str) -> Any:
        row = self._rows[name]
        value = self._play.values.read(row["v"])
        if isinstance(value, dict):
            return StepValue(value, Lazy(row.get("tasks", {}), self._play.values))
        return value

    def __iter__(self) -> Any:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def ref_of(run: str, i: int | None, k: int) -> str:
    """The reference of the k-th request of a unit: a late receipt of an older one finds nobody."""
    return f"{run}#{k}" if i is None else f"{run}/{i}#{k}"


def iteration_of(ref: str) -> int | None:
    """The number of the iteration whose first request has this reference."""
    place, _, k = ref.partition("#")
    number = place.partition("/")[2]
    return int(number) if k == "1" and number.isdigit() else None


def wish_of(act: Pause | Perform) -> dict[str, Any]:
    """What a unit waits for when it is put down."""
    if isinstance(act, Pause):
        return {"kind": "pause", "seconds": act.seconds}
    inputs = act.inputs
    if act.kind == "wait" and "signal" in inputs:
        return {"kind": "signal", "name": str(inputs["signal"]), "timeout": inputs.get("timeout")}
    if act.kind == "wait":
        return {"kind": "wait", "for": inputs.get("for"), "until": inputs.get("until")}
    if act.kind == "playbook":
        names = {key: inputs.get(key) for key in ("path", "hash", "return_step")}
        return {"kind": "child", "args": act.args, **names}
    if act.kind == "file":
        return {"kind": "file", "inputs": inputs, "timeout_ns": act.timeout_ns}
    return {"kind": "human", "inputs": inputs}
