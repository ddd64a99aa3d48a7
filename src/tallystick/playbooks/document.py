"""A playbook as text, judged whole and brought to its normal form (07 section 1).

Theory of operation.
The text is read with positions; every part is read by its own function, which reports and goes
on, so that one run names all that is wrong.
The normal form has defaults filled and sugar removed; its canonical bytes are what an execution
runs, and their hash is the identity of the playbook.
"""

# tidy: the parts of a document are read in the order in which they stand.
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.playbooks.check import remarks
from tallystick.playbooks.document_steps import read_step, step_name
from tallystick.playbooks.document_tasks import read_task
from tallystick.playbooks.finding import BadPlaybook
from tallystick.playbooks.kinds import KINDS
from tallystick.playbooks.reading import NAME, Reading, meant
from tallystick.values import canon
from tallystick.values.findings import Finding
from tallystick.values.yaml12 import NotYamlError, Path, read

VERSIONS: Final = ("tally/v1", "noetl.io/v2", "noetl.io/v10")
FEATURES: Final = frozenset(
    ("admission", "joins", "loops", "result_ref", "result_storage", "signals", "sub_playbooks")
)
LIMITS: Final[Mapping[str, int]] = {
    "max_step_runs": 10_000,
    "max_tokens": 10_000,
    "max_loop_items": 100_000,
    "max_task_runs": 10_000,
    "max_depth": 8,
}
_ROOT: Final = frozenset(
    ["apiVersion", "kind", "metadata", "keychain", "executor", "workload", "workflow", "workbook"]
)
_EXECUTOR: Final = ("profile", "version", "requires", "spec")
_SPEC: Final = ("entry_step", "final_step", "no_next_is_error", "deadline", "policy", "limits")
_POLICY: Final = (
    "status",
    "fail_fast",
    "on_final_failure",
    "admit_denied",
    "defaults",
    "results",
)
_STATUS: Final = ("fail_on_any_error", "fail_on_branch_error", "allow_partial")


_OF_THE_CALL: Final = ("rules", "timeout_ns", "result")


class Playbook(NamedTuple):
    """A playbook that may run: its normal form, that form's bytes, and what was remarked."""

    document: dict[str, Any]
    bytes: bytes
    hash: str
    findings: tuple[Finding, ...]


def load(text: str, file: str = "playbook.yaml", *, unchecked: bool = False) -> Playbook:
    """The playbook of a text; raises BadPlaybook with every error, by line.

    Errors about the net (P3) may be passed over with `unchecked`; the others leave nothing to run.
    """
    document, findings = judge(text)
    errors = [finding for finding in findings if finding.severity == "error"]
    if unchecked:
        errors = [finding for finding in errors if not finding.code.startswith("P3")]
    if errors or document is None:
        raise BadPlaybook(file, errors)
    data = canon.encode(document)
    return Playbook(document, data, canon.hash_of(data), tuple(findings))


def judge(text: str) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The normal form and all findings by line; no form when the text cannot be read at all."""
    try:
        source = read(text)
    except NotYamlError as why:
        hint = why.hint or "a playbook is one YAML 1.2 document"
        return None, [Finding(why.code, "error", *why.place, "", why.message, hint)]
    reading = Reading(source)
    made = _document(reading, source.value)
    if made is not None and not any(f.severity == "error" for f in reading.findings):
        at = {step.get("step"): i for i, step in enumerate(source.value["workflow"])}
        for code, severity, step, message, hint in remarks(made):
            reading.report(code, ("workflow", at[step]), message, hint, severity)
    findings = sorted(reading.findings, key=lambda f: (f.line, f.col, f.code))
    return made, findings


def _document(reading: Reading, value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        reading.report("P101", (), "a playbook is a map", "begin with apiVersion: tally/v1")
        return None
    _root(reading, value)
    made: dict[str, Any] = {
        "v": 1,
        "metadata": _metadata(reading, value.get("metadata")),
        "keychain": _keychain(reading, value.get("keychain")),
        "spec": _executor(reading, value.get("executor")),
        "workload": dict(reading.mapping(value.get("workload"), ("workload",), "P105", "workload")),
        "steps": _steps(reading, value.get("workflow")),
    }
    names = [step["step"] for step in made["steps"]]
    book = _workbook(reading, value.get("workbook"))
    for step in made["steps"]:
        path: Path = ("workflow", step.pop("at"))
        _resolve(reading, step, names, path)
        step["tool"] = [_called(reading, task, book, path) for task in step["tool"]]
        _scopes(reading, step, path)
    _ends(reading, made["spec"], names)
    return made


def _root(reading: Reading, value: Mapping[str, Any]) -> None:
    for key in value:
        if key not in _ROOT and not key.startswith("x-"):
            hint = "use workload or ctx" if key == "vars" else meant(key, _ROOT)
            reading.report("P105", (key,), f"a playbook has no key {key}", hint)
    if value.get("apiVersion") not in VERSIONS:
        hint = f"one of {', '.join(VERSIONS)}"
        reading.report("P103", ("apiVersion",), f"apiVersion {value.get('apiVersion')!r}", hint)
    if value.get("kind") != "Playbook":
        reading.report("P103", ("kind",), f"kind {value.get('kind')!r}", "kind: Playbook")


def _metadata(reading: Reading, value: Any) -> dict[str, Any]:
    given = reading.mapping(value, ("metadata",), "P104", "metadata")
    name = given.get("name")
    path = given.get("path", name)
    for key, text in (("name", name), ("path", path)):
        if not isinstance(text, str) or NAME.match(text) is None:
            at: Path = ("metadata", key)
            hint = "letters, digits and _ . / -, at most 128"
            reading.report("P104", at, f"{text!r} is no {key} of a playbook", hint)
    kept = {key: given[key] for key in ("version", "description", "tags") if key in given}
    return {"name": name, "path": path, **kept}


def _keychain(reading: Reading, value: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    if value is not None and not isinstance(value, list):
        reading.report("P125", ("keychain",), "keychain is not a list")
        return made
    for i, entry in enumerate(value or ()):
        at: Path = ("keychain", i)
        given = reading.mapping(entry, at, "P125", "an entry")
        fields = given.get("map")
        good = (
            isinstance(given.get("name"), str)
            and given.get("kind", "secret") == "secret"
            and given.get("provider") in ("env", "file", "store")
            and isinstance(fields, dict)
            and all(isinstance(key, str) for key in fields.values())
        )
        if not good or set(given) - {"name", "kind", "provider", "map"}:
            hint = "{name, kind: secret, provider: env | file | store, map: {field: key}}"
            reading.report("P125", at, "an entry of the keychain is malformed", hint)
            continue
        row = {"name": given["name"], "provider": given["provider"], "map": dict(fields or {})}
        made.append(row)
    return made


def _executor(reading: Reading, value: Any) -> dict[str, Any]:
    at: Path = ("executor",)
    given = reading.mapping(value, at, "P127", "executor")
    reading.only(given, _EXECUTOR, at, "P127", "executor")
    requires = reading.mapping(given.get("requires"), (*at, "requires"), "P127", "requires")
    for key, known in (("tools", frozenset(KINDS)), ("features", FEATURES)):
        for wanted in requires.get(key) or ():
            if wanted not in known:
                hint = meant(wanted, known)
                path = (*at, "requires", key)
                reading.report("P127", path, f"{wanted!r} of {key} is not there", hint)
    at = (*at, "spec")
    spec = reading.mapping(given.get("spec"), at, "P127", "spec")
    reading.only(spec, _SPEC, at, "P127", "spec")
    made: dict[str, Any] = {
        "entry_step": spec.get("entry_step"),
        "final_step": spec.get("final_step"),
        "no_next_is_error": reading.flag(
            spec.get("no_next_is_error", False), (*at, "no_next_is_error"), "P127"
        ),
        "deadline_ns": None,
        "limits": _limits(reading, spec.get("limits"), (*at, "limits")),
    }
    if spec.get("deadline") is not None:
        made["deadline_ns"] = reading.duration_ns(spec["deadline"], (*at, "deadline"))
    return {**made, **_policy(reading, spec.get("policy"), (*at, "policy"))}


def _policy(reading: Reading, value: Any, path: Path) -> dict[str, Any]:
    policy = reading.mapping(value, path, "P127", "policy")
    reading.only(policy, _POLICY, path, "P127", "policy")
    final = policy.get("on_final_failure", "fail")
    denied = policy.get("admit_denied", "pending")
    status = policy.get("status", _STATUS[0])
    at = (*path, "defaults")
    defaults = reading.mapping(policy.get("defaults"), at, "P127", "defaults")
    reading.only(defaults, ("timeout_s", "timeout"), at, "P127", "defaults")
    timeout = defaults.get("timeout_s", defaults.get("timeout"))
    at = (*path, "results")
    results = reading.mapping(policy.get("results"), at, "P127", "results")
    # `reference_first` says what holds here always: what is large travels by reference.
    reading.only(results, ("inline_max_bytes", "reference_first"), at, "P127", "results")
    inline = results.get("inline_max_bytes", 65_536)
    return {
        "status": reading.choice(status, _STATUS, (*path, "status"), "P127"),
        "fail_fast": reading.flag(policy.get("fail_fast", False), (*path, "fail_fast"), "P127"),
        "on_final_failure": reading.choice(final, ("fail", "partial"), path, "P127"),
        "admit_denied": reading.choice(denied, ("pending", "discard"), path, "P127"),
        "timeout_ns": None if timeout is None else reading.duration_ns(timeout, path),
        "inline_max_bytes": reading.count(inline, (*at, "inline_max_bytes"), 0),
    }


def _limits(reading: Reading, value: Any, path: Path) -> dict[str, int]:
    given = reading.mapping(value, path, "P126", "limits")
    reading.only(given, LIMITS, path, "P126", "limits")
    made = dict(LIMITS)
    for name in LIMITS:
        if name in given:
            made[name] = reading.count(given[name], (*path, name)) or LIMITS[name]
    return made


def _steps(reading: Reading, value: Any) -> list[dict[str, Any]]:
    at: Path = ("workflow",)
    if not isinstance(value, list) or not value:
        reading.report("P106", at, "workflow is not a list with at least one step")
        return []
    made: dict[str, dict[str, Any]] = {}
    for i, given in enumerate(value):
        if not isinstance(given, dict):
            reading.report("P107", (*at, i), "a step is not a map")
            continue
        name = step_name(reading, given, (*at, i))
        if name is None:
            continue
        if name in made:
            reading.report("P107", (*at, i, "step"), f"a second step is called {name}")
            continue
        made[name] = {**read_step(reading, given, (*at, i), name), "at": i}
    return list(made.values())


def _resolve(reading: Reading, step: dict[str, Any], names: list[str], path: Path) -> None:
    """Names of steps in arcs and joins must be steps."""
    arcs = step.get("next", {}).get("arcs", ())
    for i, arc in enumerate(arcs):
        if arc["step"] not in names:
            at = (*path, "next", "arcs", i)
            reading.report(
                "P119",
                at,
                f"arc to {arc['step']!r}, which is no step",
                meant(arc["step"], names, "steps"),
            )
    join = step.get("join", {})
    wanted = [*join.get("steps", ()), *([join["of"]] if "of" in join else [])]
    for name in wanted:
        if name not in names:
            hint = meant(name, names, "steps")
            reading.report("P123", (*path, "join"), f"{name!r} is no step", hint)


def _ends(reading: Reading, spec: dict[str, Any], names: list[str]) -> None:
    for key in ("entry_step", "final_step"):
        if spec[key] is not None and spec[key] not in names:
            at = ("executor", "spec", key)
            hint = meant(spec[key], names, "steps")
            reading.report("P120", at, f"{key} {spec[key]!r} is no step", hint)
    if spec["entry_step"] is None and names:
        spec["entry_step"] = names[0]


# ---- workbook, scopes -----------------------------------------------------------------------


def _workbook(reading: Reading, value: Any) -> dict[str, dict[str, Any]]:
    """Entry -> its task in normal form."""
    at: Path = ("workbook",)
    rows: list[tuple[Any, Any, Path]] = []
    if isinstance(value, list):
        for i, entry in enumerate(value):
            given = reading.mapping(entry, (*at, i), "P124", "an entry")
            rows.append((given.get("name"), given.get("tool"), (*at, i)))
    elif isinstance(value, dict):
        tasks = reading.mapping(value.get("tasks"), (*at, "tasks"), "P124", "tasks")
        rows = [(name, task, (*at, "tasks", name)) for name, task in tasks.items()]
    elif value is not None:
        reading.report("P124", at, "workbook is neither a list nor a map")
    book: dict[str, dict[str, Any]] = {}
    for name, task, path in rows:
        if not isinstance(name, str) or not isinstance(task, dict) or name in book:
            reading.report("P124", path, f"{name!r} is no entry", "[{name, tool: {kind, ...}}]")
            continue
        made = read_task(reading, {**task, "name": name}, path, name)
        if made is not None and made["kind"] == "workbook":
            reading.report("P124", path, f"{name} calls the workbook", "an entry is a tool")
        elif made is not None:
            book[name] = made
    return book


def _called(
    reading: Reading, task: dict[str, Any], book: dict[str, dict[str, Any]], path: Path
) -> dict[str, Any]:
    """A call of the workbook becomes the task it names, with the caller's args and policy."""
    if task["kind"] != "workbook":
        return task
    entry = task["inputs"].get("task", task["name"])
    if entry not in book:
        hint = f"entries: {', '.join(book) or 'none'}"
        reading.report("P124", path, f"the workbook has no entry {entry!r}", hint)
        return task
    called = book[entry]
    args = {**called.get("args", {}), **task.get("args", {})}
    required = sorted(name for name, value in args.items() if value is None)
    kept = {key: value for key, value in task.items() if key in _OF_THE_CALL}
    return {**called, **kept, "name": task["name"], "args": args, "required": required}


def _scopes(reading: Reading, step: dict[str, Any], path: Path) -> None:
    """`iter` and `set_iter` belong to loops (P122), `keychain` to inputs of tools (P206)."""
    if "loop" not in step:
        for task in step["tool"]:
            for rule in task.get("rules") or ():
                if "set_iter" in rule:
                    reading.report("P122", path, "set_iter in a step without a loop")
        for at, names in reading.reads:
            if at[: len(path)] == path and "iter" in names:
                reading.report("P122", at, "iter in a step without a loop")
    for at, names in reading.reads:
        if at[: len(path)] == path and "keychain" in names and "tool" not in at:
            reading.report("P206", at, "keychain where values are recorded")
