"""The actions of a reaction file: what each kind takes, in its one form (08 section 10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions.reading import Reading, is_state_path
from tallystick.values.yaml12 import Path

# What the templates of an action may read.
ACTION_NAMES: Final = frozenset(("target", "trigger", "frames", "params", "actions"))
_ACTION: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}\Z")
_LITERAL: Final = ("prompt", "allow")  # the hash of a definition says all of it
_USER_EDIT: Final = ("keep", "overwrite", "propose_file")
# Kind -> the params it needs, and those it may have.
KINDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "file.read": (("paths",), ()),
    "file.write": (("path", "content"), ("on_user_edit", "emit_frame")),
    "file.delete": (("path",), ("on_user_edit",)),
    "frame.put": (("type", "content"), ("path", "meta")),
    "frame.queue": (("reaction",), ("path",)),
    "frame.generate": (("reaction",), ("path",)),
    "provider.call": (("model", "prompt"), ("input", "schema", "provider", "max_tokens")),
    "telemetry.emit": (("name",), ("value", "attrs")),
    "event.send": (("schema", "value"), ("key",)),
    "playbook.run": (("playbook",), ("workload", "allow")),
}
# The tools of a playbook that a reaction may allow; files follow from `reads` and `writes`.
TOOLS: Final = ("http", "llm", "python", "shell", "sql")
_KEYS: Final = ("name", "timeout", "when", "on_error")


def read_actions(
    reading: Reading, given: Any, adapters: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The actions in their listed order."""
    made: list[dict[str, Any]] = []
    for i, raw in enumerate(reading.items(given, ("actions",))):
        made.append(_action(reading, raw, ("actions", i), adapters))
        names = [action["name"] for action in made]
        if names.index(names[-1]) != i:
            reading.report("reaction.bad_value", ("actions", i), f"two actions are {names[-1]}")
    _allow_alike(reading, made)
    if not made:
        reading.report("reaction.missing", ("actions",), "a reaction has at least one action")
    return made


def _action(
    reading: Reading, raw: Any, at: Path, adapters: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    known = {**KINDS, **dict.fromkeys(adapters, ((), ()))}
    given = reading.mapping(raw, at, (*_KEYS, *known))
    kinds = [key for key in given if key in known]
    name = given.get("name")
    if not isinstance(name, str) or not _ACTION.match(name):
        reading.report("reaction.bad_value", at, "an action has a name of small letters")
    if len(kinds) != 1:
        hint = f"known: {', '.join(sorted(known))}"
        reading.report("reaction.action", at, "an action is of exactly one kind", hint)
    kind = kinds[0] if kinds else "telemetry.emit"
    when = given.get("when")
    return {
        "name": str(name),
        "kind": kind,
        "params": _params(reading, kind, given.get(kind), (*at, kind), adapters),
        "timeout_ms": reading.duration_ms(given.get("timeout", "60s"), (*at, "timeout")),
        "when": None if when is None else reading.expression(when, (*at, "when"), ACTION_NAMES),
        "on_error": reading.choice(
            given.get("on_error", "fail"), ("fail", "continue"), (*at, "on_error")
        ),
    }


def _params(
    reading: Reading,
    kind: str,
    given: Any,
    at: Path,
    adapters: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    if kind in adapters:
        return dict(reading.template(reading.mapping(given, at, None), at, ACTION_NAMES))
    needed, more = KINDS[kind]
    params = reading.mapping(given, at, (*needed, *more))
    for key in needed:
        if key not in params:
            reading.report("reaction.missing", at, f"{kind} needs {key}")
    path = params.get("path")
    if kind.startswith("file.") and isinstance(path, str) and is_state_path(path):
        hint = "the runtime's own places can be neither watched nor written"
        reading.report("reaction.state_path", (*at, "path"), f"{path} is the runtime's own", hint)
    if "on_user_edit" in params:
        reading.choice(params["on_user_edit"], _USER_EDIT, (*at, "on_user_edit"))
    if kind == "playbook.run":
        params = {**params, "allow": _allow(reading, params.get("allow"), (*at, "allow"))}
    return {
        key: value if key in _LITERAL else reading.template(value, (*at, key), ACTION_NAMES)
        for key, value in params.items()
    }


def _allow_alike(reading: Reading, made: list[dict[str, Any]]) -> None:
    """A run holds one grant for each kind of tool, so its playbooks are allowed the same of it."""
    first: dict[str, Any] = {}
    for i, action in enumerate(made):
        for kind, params in action["params"].get("allow", {}).items():
            if first.setdefault(kind, params) != params:
                at: Path = ("actions", i, "playbook.run", "allow", kind)
                reading.report(
                    "reaction.bad_value", at, f"two playbooks may use {kind} differently"
                )


def _allow(reading: Reading, given: Any, at: Path) -> dict[str, Any]:
    """What the tools of a playbook may do, by kind: the params of a grant each."""
    made: dict[str, Any] = {}
    for kind, raw in reading.mapping(given or {}, at, None).items():
        if kind not in TOOLS:
            hint = f"known: {', '.join(TOOLS)}; files follow from reads and writes"
            reading.report("reaction.bad_value", (*at, kind), f"no tool to allow: {kind}", hint)
        made[str(kind)] = dict(reading.mapping(raw or {}, (*at, kind), None))
    return made
