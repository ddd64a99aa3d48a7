"""Tasks of a pipeline and their policies, in normal form (07 sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.playbooks.kinds import KINDS, SPEC_KEYS, TASK_KEYS
from tallystick.playbooks.reading import LABEL, Reading, meant
from tallystick.values.yaml12 import Path

DO: Final = ("continue", "retry", "jump", "break", "fail")
_THEN: Final = frozenset(("do", "attempts", "backoff", "delay", "to", "set_ctx", "set_iter"))
_RESULT: Final = frozenset(
    ("inline_max_bytes", "preview_max_bytes", "resolve_max_bytes", "select", "output_select")
)


def read_tool(reading: Reading, value: Any, path: Path, step: str) -> list[dict[str, Any]]:
    """The pipeline of a step: its tasks in normal form, sugar removed."""
    if isinstance(value, dict):
        return _labelled(reading, [(read_task(reading, value, path, f"{step}_task"), path)])
    if not isinstance(value, list) or not value:
        reading.report("P110", path, "tool is neither a task nor a list of tasks")
        return []
    made: list[tuple[dict[str, Any] | None, Path]] = []
    for i, given in enumerate(value):
        at, label, item = (*path, i), f"task_{i}", given
        if isinstance(item, dict) and len(item) == 1 and "kind" not in item:
            ((label, item),) = item.items()
            at = (*at, label)
        if not isinstance(item, dict):
            reading.report("P110", at, "a task is not a map")
            continue
        made.append((read_task(reading, item, at, label), at))
    return _labelled(reading, made)


def _labelled(
    reading: Reading, tasks: list[tuple[dict[str, Any] | None, Path]]
) -> list[dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for task, path in tasks:
        if task is None:
            continue
        if task["name"] in made:
            reading.report("P113", path, f"a second task is called {task['name']}")
        made[task["name"]] = task
    for task, path in tasks:
        for i, rule in enumerate((task or {}).get("rules") or ()):
            if rule["do"] == "jump" and rule.get("to") not in made:
                at = (*path, "spec", "policy", "rules", i)
                hint = f"labels here: {', '.join(made)}"
                reading.report("P115", at, f"jump to {rule.get('to')!r}, no label here", hint)
    return list(made.values())


def read_task(
    reading: Reading, given: Mapping[str, Any], path: Path, label: str
) -> dict[str, Any] | None:
    """One task in normal form, or None with a finding."""
    kind = given.get("kind")
    if kind not in KINDS:
        reading.report("P110", (*path, "kind"), f"{kind!r} is no kind of tool", meant(kind, KINDS))
        return None
    name = given.get("name", label)
    if not isinstance(name, str) or LABEL.match(name) is None:
        reading.report("P113", (*path, "name"), f"{name!r} is no label of a task")
        name = label
    inputs = _inputs(reading, given, path)
    if "do" in given:
        hint = "write it under spec.policy.rules of the task"
        reading.report("P116", (*path, "do"), "do stands outside a policy", hint)
    made: dict[str, Any] = {"name": name, "kind": kind, "inputs": inputs}
    if kind == "playbook" and "payload" in given:
        made["args"] = reading.templates(given["payload"], (*path, "payload"), "P112", "payload")
    if given.get("args") is not None:
        made["args"] = reading.templates(given["args"], (*path, "args"), "P112", "args")
    _spec(reading, given.get("spec"), (*path, "spec"), made)
    return made


def _inputs(reading: Reading, given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    kind = KINDS[given["kind"]]
    inputs: dict[str, Any] = {}
    for key, value in given.items():
        if key in TASK_KEYS or key.startswith("x-") or key == "do":
            continue
        word = kind.spellings.get(key, key)
        if word == "args":
            continue
        if word not in kind.inputs:
            hint = meant(key, kind.inputs | TASK_KEYS)
            reading.report("P112", (*path, key), f"{given['kind']} has no key {key}", hint)
            continue
        # Code is passed on as it is: braces in it are its own.
        is_code = given["kind"] == "python" and word in ("code", "code_b64")
        inputs[word] = value if is_code else reading.template(value, (*path, key))
    for group in kind.needs:
        if not any(word in inputs or (word == "name" and "name" in given) for word in group):
            message = f"{given['kind']} needs {' or '.join(group)}"
            reading.report("P111", path, message, f"add {group[0]}")
    return inputs


def _spec(reading: Reading, value: Any, path: Path, made: dict[str, Any]) -> None:
    spec = reading.mapping(value, path, "P112", "spec")
    for key in spec:
        if key not in SPEC_KEYS and not key.startswith("x-"):
            placed = key in KINDS[made["kind"]].inputs
            hint = "move it up, beside kind" if placed else meant(key, SPEC_KEYS)
            reading.report("P112", (*path, key), f"spec has no key {key}", hint)
    read_timeout(reading, spec, path, made)
    if "policy" in spec:
        made["rules"] = _policy(reading, spec["policy"], (*path, "policy"))
    if "result" in spec:
        made["result"] = read_result(reading, spec["result"], (*path, "result"))


def read_timeout(
    reading: Reading, spec: Mapping[str, Any], path: Path, made: dict[str, Any]
) -> None:
    """A timeout: one duration, or for http the longer of connect and read."""
    for key in ("timeout", "timeout_s"):
        value = spec.get(key)
        if value is None:
            continue
        parts = value if isinstance(value, dict) else {"": value}
        at = (*path, key)
        found = [reading.duration_ns(part, (*at, word)) for word, part in parts.items()]
        made["timeout_ns"] = max((ns for ns in found if ns is not None), default=0) or None


def read_result(reading: Reading, value: Any, path: Path) -> dict[str, Any]:
    """How a large result is kept: sizes and selected fields."""
    given = reading.mapping(value, path, "P112", "result")
    reading.only(given, (*_RESULT, "store"), path, "P112", "result")
    made: dict[str, Any] = {}
    for key in ("inline_max_bytes", "preview_max_bytes", "resolve_max_bytes"):
        if key in given:
            made[key] = reading.count(given[key], (*path, key), 0)
    select = given.get("select", given.get("output_select"))
    if select is not None:
        made["select"] = _select(reading, select, path)
    return made


def _select(reading: Reading, value: Any, path: Path) -> list[dict[str, str]]:
    made: list[dict[str, str]] = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            made.append({"path": item, "as": item.rpartition(".")[2]})
        elif isinstance(item, dict) and isinstance(item.get("path"), str):
            name = item.get("as", item["path"].rpartition(".")[2])
            made.append({"path": item["path"], "as": str(name)})
        else:
            reading.report("P112", path, f"{item!r} selects nothing", "a name, or {path, as}")
    return made


def _policy(reading: Reading, value: Any, path: Path) -> list[dict[str, Any]]:
    policy = reading.mapping(value, path, "P114", "policy")
    reading.only(policy, ("rules",), path, "P114", "a task policy")
    rules = policy.get("rules")
    if not isinstance(rules, list) or not rules:
        reading.report("P114", path, "a task policy needs a list of rules")
        return []
    made = (_rule(reading, rule, (*path, "rules", i)) for i, rule in enumerate(rules))
    return [rule for rule in made if rule is not None]


def _rule(reading: Reading, value: Any, path: Path) -> dict[str, Any] | None:
    rule = reading.mapping(value, path, "P114", "a rule")
    reading.only(rule, ("when", "then", "else", "name", "desc"), path, "P114", "a rule")
    made: dict[str, Any] = {}
    at = (*path, "then")
    then = rule.get("then")
    if "else" in rule:
        otherwise = reading.mapping(rule["else"], (*path, "else"), "P114", "else")
        at, then = (*path, "else", "then"), otherwise.get("then")
        if "then" not in otherwise:
            at, then = (*path, "else"), otherwise
            reading.report("P301", at, "else without then", "write else: {then: {...}}", "warning")
    elif "when" in rule:
        made["when"] = reading.guard(rule["when"], (*path, "when"))
    else:
        reading.report("P114", path, "a rule has neither when nor else")
    if not isinstance(then, dict) or "do" not in then:
        reading.report("P114", at, "then has no do", f"do: {' | '.join(DO)}")
        return None
    return _then(reading, then, at, made)


def _then(
    reading: Reading, then: Mapping[str, Any], path: Path, made: dict[str, Any]
) -> dict[str, Any]:
    reading.only(then, _THEN, path, "P114", "then")
    made["do"] = reading.choice(then["do"], DO, (*path, "do"), "P114")
    if made["do"] == "retry":
        made["attempts"] = reading.count(then.get("attempts", 3), (*path, "attempts"), 1, "P114")
        backoff = then.get("backoff", "none")
        words = ("none", "linear", "exponential")
        made["backoff"] = reading.choice(backoff, words, (*path, "backoff"), "P114")
        made["delay"] = _delay(reading, then.get("delay", 1), (*path, "delay"))
    if made["do"] == "jump":
        made["to"] = then.get("to")
    for key in ("set_ctx", "set_iter"):
        if key in then:
            made[key] = reading.templates(then[key], (*path, key), "P114", key)
    return made


def _delay(reading: Reading, value: Any, path: Path) -> Any:
    if isinstance(value, str) and "{{" in value:
        return reading.template(value, path)
    found = reading.duration_ns(value, path)
    return None if found is None else found / 10**9
