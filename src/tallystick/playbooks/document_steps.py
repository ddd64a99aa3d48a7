"""Steps, routers, loops and joins, in normal form (07 sections 4, 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.playbooks.document_tasks import read_result, read_timeout, read_tool
from tallystick.playbooks.reading import LABEL, NAME, SCOPES, Reading, meant
from tallystick.values.yaml12 import Path

_STEP: Final = frozenset(
    ["step", "desc", "spec", "join", "loop", "args", "tool", "set_ctx", "result", "next"]
)
_SPEC: Final = frozenset(["timeout", "timeout_s", "policy", "result", "failure"])
_POLICY: Final = frozenset(["admit", "lifecycle", "failure", "admit_denied"])
_OLDER: Final = {
    "when": "a step has no when: write spec.policy.admit.rules",
    "case": "write next.arcs with a when each",
    "retry": "write spec.policy.rules of the task",
    "sink": "write one more task",
    "vars": "write set_ctx",
}


def read_step(reading: Reading, given: Mapping[str, Any], path: Path, name: str) -> dict[str, Any]:
    """One step in normal form."""
    for key in given:
        if key not in _STEP and not key.startswith("x-"):
            hint = _OLDER.get(key) or meant(key, _STEP)
            reading.report("P108", (*path, key), f"a step has no key {key}", hint)
    if "tool" not in given and "next" not in given:
        reading.report("P109", path, f"{name} has neither tool nor next")
    made: dict[str, Any] = {"step": name, "failure": "fail_fast", "tool": []}
    _spec(reading, given.get("spec"), (*path, "spec"), made)
    if given.get("tool") is not None:
        made["tool"] = read_tool(reading, given["tool"], (*path, "tool"), name)
    if given.get("args") is not None:
        made["args"] = reading.templates(given["args"], (*path, "args"), "P108", "args")
    if "set_ctx" in given:
        made["set_ctx"] = reading.templates(given["set_ctx"], (*path, "set_ctx"), "P108", "set_ctx")
    if "result" in given:
        made["result"] = read_result(reading, given["result"], (*path, "result"))
    if "loop" in given:
        made["loop"] = _loop(reading, given["loop"], (*path, "loop"), made)
    if given.get("join") is not None:
        made["join"] = _join(reading, given["join"], (*path, "join"))
    if given.get("next") is not None:
        made["next"] = _router(reading, given["next"], (*path, "next"))
    return made


def step_name(reading: Reading, given: Mapping[str, Any], path: Path) -> str | None:
    """The name of a step, or None with a finding."""
    name = given.get("step")
    if not isinstance(name, str) or NAME.match(name) is None:
        reading.report("P107", path, f"{name!r} is no name of a step")
        return None
    if name in SCOPES:
        reading.report("P107", (*path, "step"), f"{name} is the name of a scope")
        return None
    return name


def _spec(reading: Reading, value: Any, path: Path, made: dict[str, Any]) -> None:
    spec = reading.mapping(value, path, "P108", "spec")
    if "next_mode" in spec:
        at = (*path, "next_mode")
        reading.report("P118", at, "spec has no next_mode", "write next.spec.mode")
    reading.only(spec, (*_SPEC, "next_mode"), path, "P108", "spec of a step")
    read_timeout(reading, spec, path, made)
    at = (*path, "policy")
    policy = reading.mapping(spec.get("policy"), at, "P108", "policy")
    reading.only(policy, _POLICY, at, "P108", "policy of a step")
    if "admit" in policy:
        made["admit"] = _admit(reading, policy["admit"], (*at, "admit"))
    if "admit_denied" in policy:
        words = ("pending", "discard")
        made["admit_denied"] = reading.choice(
            policy["admit_denied"], words, (*at, "admit_denied"), "P121"
        )
    failure = policy.get("failure", spec.get("failure"))
    if failure is not None:
        made["failure"] = _failure(reading, failure, (*at, "failure"))
    if "lifecycle" in policy:
        made["lifecycle"] = _lifecycle(reading, policy["lifecycle"], (*at, "lifecycle"))
    if "result" in spec:
        made["result"] = read_result(reading, spec["result"], (*path, "result"))


def _failure(reading: Reading, value: Any, path: Path) -> str:
    mode = value.get("mode") if isinstance(value, dict) else value
    return reading.choice(mode, ("fail_fast", "best_effort"), path, "P108")


def _lifecycle(reading: Reading, value: Any, path: Path) -> dict[str, Any]:
    given = reading.mapping(value, path, "P108", "lifecycle")
    known = ("timeout_s", "on_takeover", "max_takeovers")
    reading.only(given, known, path, "P108", "lifecycle")
    made: dict[str, Any] = {}
    read_timeout(reading, given, path, made)
    takeover = given.get("on_takeover", "rerun")
    made["on_takeover"] = reading.choice(takeover, ("rerun", "fail"), path, "P108")
    made["max_takeovers"] = reading.count(given.get("max_takeovers", 3), path, 0)
    return made


def _admit(reading: Reading, value: Any, path: Path) -> list[dict[str, Any]]:
    admit = reading.mapping(value, path, "P121", "admit")
    reading.only(admit, ("mode", "rules"), path, "P121", "admit")
    rules = admit.get("rules")
    if not isinstance(rules, list):
        reading.report("P121", path, "admit needs a list of rules")
        return []
    return [_admit_rule(reading, rule, (*path, "rules", i)) for i, rule in enumerate(rules)]


def _admit_rule(reading: Reading, value: Any, path: Path) -> dict[str, Any]:
    rule = reading.mapping(value, path, "P121", "a rule")
    reading.only(rule, ("when", "then", "else", "desc"), path, "P121", "a rule of admission")
    made: dict[str, Any] = {}
    then = rule.get("then")
    if "else" in rule:
        otherwise = reading.mapping(rule["else"], (*path, "else"), "P121", "else")
        then = otherwise.get("then", otherwise)
    elif "when" in rule:
        made["when"] = reading.guard(rule["when"], (*path, "when"))
    else:
        reading.report("P121", path, "a rule has neither when nor else")
    if isinstance(then, dict) and "do" in then:
        message = "do stands in an admission rule"
        reading.report("P116", path, message, "admission says allow: true or false")
    elif not isinstance(then, dict) or type(then.get("allow")) is not bool:
        reading.report("P121", path, "a rule of admission has no allow: true or false")
    made["allow"] = isinstance(then, dict) and then.get("allow") is True
    return made


def _loop(reading: Reading, value: Any, path: Path, step: dict[str, Any]) -> dict[str, Any]:
    loop = reading.mapping(value, path, "P117", "loop")
    reading.only(loop, ("in", "iterator", "spec", "desc"), path, "P117", "loop")
    if "in" not in loop or "iterator" not in loop:
        reading.report("P117", path, "a loop needs in and iterator")
    iterator = loop.get("iterator", "item")
    if not isinstance(iterator, str) or LABEL.match(iterator) is None or iterator in SCOPES:
        reading.report("P117", (*path, "iterator"), f"{iterator!r} is no name of an iterator")
    at = (*path, "spec")
    spec = reading.mapping(loop.get("spec"), at, "P117", "spec")
    known = ("mode", "max_in_flight", "policy", "timeout", "timeout_s")
    reading.only(spec, known, at, "P117", "spec of a loop")
    read_timeout(reading, spec, at, step)
    words = ("sequential", "parallel")
    mode = reading.choice(spec.get("mode", "sequential"), words, (*at, "mode"), "P117")
    most = reading.count(spec.get("max_in_flight", 16), (*at, "max_in_flight"), 1, "P117")
    items = reading.template(loop.get("in"), (*path, "in"))
    made = {"in": items, "iterator": str(iterator), "mode": mode}
    return {**made, "max_in_flight": 1 if mode == "sequential" else most or 1}


def _join(reading: Reading, value: Any, path: Path) -> dict[str, Any]:
    given = {"mode": value} if isinstance(value, str) else value
    join = reading.mapping(given, path, "P123", "join")
    reading.only(join, ("mode", "n", "of", "steps", "cancel_rest"), path, "P123", "join")
    mode = reading.choice(join.get("mode", "all"), ("all", "any", "n_of_m"), path, "P123")
    made: dict[str, Any] = {"mode": mode, "cancel_rest": join.get("cancel_rest", False) is True}
    if type(join.get("cancel_rest", False)) is not bool:
        reading.report("P123", (*path, "cancel_rest"), "cancel_rest is not true or false")
    if mode == "n_of_m":
        made["n"] = reading.count(join.get("n"), (*path, "n"), 1, "P123") or 1
    elif "n" in join:
        reading.report("P123", (*path, "n"), "n is for mode n_of_m")
    if "of" in join:
        made["of"] = join["of"]
    if "steps" in join:
        steps = join["steps"]
        if not isinstance(steps, list) or not steps:
            reading.report("P123", (*path, "steps"), "steps is not a list of steps")
            steps = []
        made["steps"] = steps
    return made


def _router(reading: Reading, value: Any, path: Path) -> dict[str, Any]:
    if isinstance(value, str):
        reading.report("P302", path, "next as a name", "write next: {arcs: [...]}", "warning")
        return {"mode": "exclusive", "arcs": [{"step": value}]}
    if isinstance(value, dict) and "step" in value and "arcs" not in value:
        reading.report("P302", path, "next as one arc", "write next: {arcs: [...]}", "warning")
        return {"mode": "exclusive", "arcs": [_arc(reading, value, path)]}
    if not isinstance(value, dict) or not isinstance(value.get("arcs"), list):
        hint = "next: {spec: {mode}, arcs: [{step, when, args}]}"
        reading.report("P118", path, "next is not a router", hint)
        return {"mode": "exclusive", "arcs": []}
    reading.only(value, ("spec", "arcs", "desc"), path, "P118", "next")
    spec = reading.mapping(value.get("spec"), (*path, "spec"), "P118", "spec")
    reading.only(spec, ("mode",), (*path, "spec"), "P118", "spec of next")
    words = ("exclusive", "inclusive")
    mode = reading.choice(spec.get("mode", "exclusive"), words, (*path, "spec", "mode"), "P118")
    at = (*path, "arcs")
    return {
        "mode": mode,
        "arcs": [_arc(reading, arc, (*at, i)) for i, arc in enumerate(value["arcs"])],
    }


def _arc(reading: Reading, value: Any, path: Path) -> dict[str, Any]:
    arc = reading.mapping(value, path, "P118", "an arc")
    if "do" in arc or (isinstance(arc.get("then"), dict) and "do" in arc["then"]):
        reading.report("P116", path, "do stands in an arc", "an arc names a step")
    reading.only(arc, ("step", "when", "args", "desc", "do"), path, "P118", "an arc")
    made: dict[str, Any] = {"step": arc.get("step")}
    if arc.get("when") is not None:
        made["when"] = reading.guard(arc["when"], (*path, "when"))
    if arc.get("args") is not None:
        made["args"] = reading.templates(arc["args"], (*path, "args"), "P118", "args")
    return made
