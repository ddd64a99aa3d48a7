"""The reaction file: read into one frozen form that its hash names (F-03; 08 section 2).

Theory of operation.
Everything that changes what a reaction does stands in the form, with defaults filled in, the
profile merged and prompts by their content, so that equal hashes mean equal behaviour; comments,
key order and layout are gone (R4).
The form is a document whose sha256 is the hash, so it is kept as a blob under its own hash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tallystick.reactions import ids
from tallystick.reactions.document_actions import read_actions
from tallystick.reactions.finding import BadReaction
from tallystick.reactions.profiles import RULE_NAMES, read_rules, resolve
from tallystick.reactions.reading import Reading
from tallystick.values import canon
from tallystick.values.findings import Finding
from tallystick.values.yaml12 import NotYamlError, Path, read

NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}\Z")
TYPE: Final = "reaction@1"
DEPTH_CEILING: Final = 16
CHANGES: Final = ("created", "modified", "removed", "renamed", "type_changed")
_FIELDS: Final = (
    "reaction",
    "summary",
    "target",
    "on",
    "reads",
    "params",
    "writes",
    "ignore",
    "overlap",
    "fingerprint",
    "policy",
    "mode",
    "max_depth",
    "reentry",
    "cycles",
    "cooldown",
    "breaker",
    "limits",
    "on_user_edit",
    "heal",
    "copy_lineage",
    "on_first_scan",
    "retry",
    "enabled",
    "owners",
    "tags",
    "actions",
)
_MODES: Final = ("coalesce", "queue", "restart", "parallel")


@dataclass(frozen=True, slots=True)
class Definition:
    """One reaction as it was loaded: its form, the data of that and its hash.

    `blobs` are the prompts and playbooks that the form names by content.
    """

    name: str
    form: Mapping[str, Any]
    data: bytes
    hash: str
    blobs: tuple[bytes, ...] = ()

    def __getitem__(self, field: str) -> Any:
        """A field of the form."""
        return self.form[field]


def load(
    text: str,
    name: str,
    prompts: Mapping[str, bytes] | None = None,
    profiles: Mapping[str, Any] | None = None,
    adapters: Mapping[str, Mapping[str, Any]] | None = None,
) -> Definition:
    """The definition of a file called `name`; BadReaction holds every finding.

    `prompts` are the files beside it by name, playbooks among them; `profiles` is the content of
    `profiles.yaml`; `adapters` are the actions that the configuration adds (F-21).
    """
    try:
        source = read(text)
    except NotYamlError as why:
        code = "reaction.duplicate_key" if why.code == "P102" else "reaction.yaml"
        found = Finding(code, "error", *why.place, "", why.message, why.hint)
        raise BadReaction(name, [found]) from None
    reading = Reading(source)
    form = _form(reading, profiles or {}, adapters or {})
    held = _prompts(reading, form, prompts or {})
    if reading.findings:
        raise BadReaction(name, sorted(reading.findings, key=lambda each: each[2:4]))
    made = definition_of(canon.encode(form))
    return Definition(made.name, made.form, made.data, made.hash, held)


@lru_cache(maxsize=256)
def definition_of(data: bytes) -> Definition:
    """The definition behind the bytes of its form."""
    form = canon.decode(data)
    assert form["$type"] == TYPE, "the bytes are the form of a reaction"
    return Definition(form["reaction"], form, data, canon.hash_of(data))


# tidy: one form, all of its fields.
def _form(
    reading: Reading, profiles: Mapping[str, Any], adapters: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    raw = reading.mapping(reading.source.value, (), _FIELDS)
    name = raw.get("reaction")
    if not isinstance(name, str) or not NAME.match(name):
        hint = "^[a-z][a-z0-9-]{0,62}$, unique in the workspace"
        reading.report("reaction.name", ("reaction",), f"{name!r} is not a name", hint)
    policy = reading.mapping(raw.get("policy"), ("policy",), ("profile", "rules", "confidence"))
    profile = policy.get("profile", "standard")
    inherited, defaults = resolve(reading, profile, profiles, ("policy", "profile"))
    given = {**defaults, **raw}
    own = reading.items(policy.get("rules"), ("policy", "rules"))
    rules = read_rules(reading, inherited, ("policy", "profile"), [])
    rules = read_rules(reading, own, ("policy", "rules"), rules)
    confidence = policy.get("confidence")
    on = _on(reading, given.get("on"))
    return {
        "$type": TYPE,
        "reaction": str(name),
        "summary": str(given.get("summary", "")),
        "target": _target(reading, given.get("target")),
        "on": on,
        "reads": _reads(reading, given.get("reads"), on),
        "params": dict(reading.mapping(given.get("params"), ("params",), None)),
        "writes": _scope(reading, given.get("writes"), "writes"),
        "ignore": reading.globs(given.get("ignore"), ("ignore",)),
        "overlap": _word(reading, given, "overlap", ("forbid", "managed", "in_place")),
        "fingerprint": _word(reading, given, "fingerprint", ("state", "delta", "command")),
        "policy": {
            "profile": str(profile),
            "rules": rules,
            "confidence": None
            if confidence is None
            else reading.expression(confidence, ("policy", "confidence"), RULE_NAMES),
        },
        "mode": _mode(reading, given.get("mode", "coalesce")),
        "max_depth": reading.count(given.get("max_depth", 4), ("max_depth",), 0, DEPTH_CEILING),
        "reentry": _reentry(reading, given.get("reentry")),
        "cycles": _word(reading, given, "cycles", ("deny", "allow")),
        "cooldown_ms": reading.duration_ms(given.get("cooldown", "2s"), ("cooldown",)),
        "breaker": _breaker(reading, given.get("breaker")),
        "limits": _limits(reading, given.get("limits")),
        "on_user_edit": _word(
            reading, given, "on_user_edit", ("keep", "overwrite", "propose_file")
        ),
        "heal": reading.flag(given.get("heal", False), ("heal",)),
        "copy_lineage": reading.flag(given.get("copy_lineage", True), ("copy_lineage",)),
        "on_first_scan": reading.flag(given.get("on_first_scan", False), ("on_first_scan",)),
        "retry": _retry(reading, given.get("retry")),
        "enabled": reading.flag(given.get("enabled", True), ("enabled",)),
        "owners": reading.texts(given.get("owners"), ("owners",)),
        "tags": reading.texts(given.get("tags"), ("tags",)),
        "actions": read_actions(reading, given.get("actions"), adapters),
        "adapters": {key: dict(row) for key, row in adapters.items()},
        "prompts": {},
    }


def _word(reading: Reading, given: Mapping[str, Any], field: str, words: tuple[str, ...]) -> str:
    return reading.choice(given.get(field, words[0]), words, (field,))


def _target(reading: Reading, raw: Any) -> dict[str, Any]:
    given = reading.mapping(raw or {"kind": "workspace"}, ("target",), ("kind", "match"))
    kinds = ("workspace", "directory", "file")
    kind = reading.choice(given.get("kind", "workspace"), kinds, ("target", "kind"))
    match = given.get("match", "**" if kind != "workspace" else None)
    if kind == "workspace":
        if match is not None:
            reading.report("reaction.bad_value", ("target",), "a workspace has no match")
        return {"kind": kind, "match": None}
    if not isinstance(match, str) or not reading.glob(match, ("target", "match"), relative=False):
        reading.report("reaction.bad_value", ("target", "match"), "match is a glob")
        match = "**"
    return {"kind": kind, "match": match}


def _on(reading: Reading, raw: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for i, entry in enumerate(reading.items(raw, ("on",))):
        at: Path = ("on", i)
        known = ("files", "generated", "changes", "frame", "command", "every")
        given = reading.mapping(entry, at, known)
        sources = [key for key in given if key in ("files", "frame", "command", "every")]
        if len(sources) != 1:
            reading.report("reaction.bad_value", at, "one of files, frame, command, every")
            continue
        made.append(_source(reading, sources[0], given, at))
    if not made:
        reading.report("reaction.missing", ("on",), "a reaction says what it reacts to")
    return made


def _source(reading: Reading, kind: str, given: Mapping[str, Any], at: Path) -> dict[str, Any]:
    value = given[kind]
    if kind == "files":
        changes = reading.texts(given.get("changes"), (*at, "changes"))
        for change in changes:
            reading.choice(change, CHANGES, (*at, "changes"))
        return {
            "files": reading.globs(value, (*at, "files")),
            "generated": reading.flag(given.get("generated", False), (*at, "generated")),
            "changes": sorted(changes) or list(CHANGES),
        }
    if kind == "frame":
        frame = reading.mapping(value, (*at, "frame"), ("type",))
        return {"frame": _frame_type(reading, frame.get("type"), (*at, "frame", "type"))}
    if kind == "every":
        every = reading.duration_ms(value, (*at, "every"))
        if every < 1000:
            reading.report("reaction.bad_value", (*at, "every"), "every is at least 1s")
        return {"every_ms": every}
    return {"command": reading.flag(value, (*at, "command"))}


def _frame_type(reading: Reading, value: Any, at: Path) -> str:
    if not isinstance(value, str) or not NAME.match(value):
        reading.report("reaction.bad_value", at, f"{value!r} is not a type of frames")
    return str(value)


def _scope(reading: Reading, raw: Any, field: str) -> dict[str, Any]:
    given = reading.mapping(raw, (field,), ("files", "frames"))
    frames = reading.texts(given.get("frames"), (field, "frames"))
    return {
        "files": reading.globs(given.get("files"), (field, "files")),
        "frames": sorted(
            _frame_type(reading, each, (field, "frames", i)) for i, each in enumerate(frames)
        ),
    }


def _reads(reading: Reading, raw: Any, on: list[dict[str, Any]]) -> dict[str, Any]:
    """What the input digest covers; by default the files and frames that are reacted to."""
    given = _scope(reading, raw, "reads")
    asked = raw if isinstance(raw, dict) else {}
    if "files" not in asked:
        given["files"] = [glob for entry in on for glob in entry.get("files", ())]
    if "frames" not in asked:
        given["frames"] = sorted({entry["frame"] for entry in on if "frame" in entry})
    return given


def _mode(reading: Reading, raw: Any) -> dict[str, Any]:
    if isinstance(raw, str):
        kind = reading.choice(raw, _MODES, ("mode",))
        return {"kind": kind, "max": {"queue": 100, "parallel": 4}.get(kind, 1)}
    given = reading.mapping(raw, ("mode",), ("queue", "parallel"))
    if len(given) != 1:
        reading.report("reaction.bad_value", ("mode",), "coalesce, restart, {queue: n} or so")
        return {"kind": "coalesce", "max": 1}
    kind, most = next(iter(given.items()))
    return {"kind": kind, "max": reading.count(most, ("mode", kind), 1, 10_000)}


def _reentry(reading: Reading, raw: Any) -> int:
    if raw is None or raw == "none":
        return 0
    given = reading.mapping(raw, ("reentry",), ("max",))
    return reading.count(given.get("max"), ("reentry", "max"), 1, DEPTH_CEILING)


def _breaker(reading: Reading, raw: Any) -> dict[str, Any]:
    given = reading.mapping(raw, ("breaker",), ("runs", "window", "tokens"))
    tokens = given.get("tokens")
    return {
        "runs": reading.count(given.get("runs", 20), ("breaker", "runs"), 1),
        "window_ms": reading.duration_ms(given.get("window", "10m"), ("breaker", "window")),
        "tokens": None if tokens is None else reading.count(tokens, ("breaker", "tokens"), 1),
    }


def _limits(reading: Reading, raw: Any) -> dict[str, Any]:
    given = reading.mapping(raw, ("limits",), ("actions", "files", "bytes", "duration"))
    return {
        "actions": reading.count(given.get("actions", 256), ("limits", "actions"), 1, 256),
        "files": reading.count(given.get("files", 1024), ("limits", "files"), 1, 1024),
        "bytes": reading.count(given.get("bytes", 64 << 20), ("limits", "bytes"), 1, 64 << 20),
        "duration_ms": reading.duration_ms(given.get("duration", "10m"), ("limits", "duration")),
    }


def _retry(reading: Reading, raw: Any) -> dict[str, Any]:
    given = reading.mapping(raw, ("retry",), ("max", "backoff"))
    return {
        "max": reading.count(given.get("max", 0), ("retry", "max"), 0, 100),
        "backoff_ms": reading.duration_ms(given.get("backoff", "2s"), ("retry", "backoff")),
    }


def _prompts(
    reading: Reading, form: dict[str, Any], prompts: Mapping[str, bytes]
) -> tuple[bytes, ...]:
    """Put the content ids of what the actions name beside them into the form."""
    held: dict[str, bytes] = {}
    for i, action in enumerate(form["actions"]):
        field = {"provider.call": "prompt", "playbook.run": "playbook"}.get(action["kind"])
        name = action["params"].get(field) if field is not None else None
        if name is None:
            continue
        if name not in prompts:
            hint = f"there are: {', '.join(sorted(prompts)) or 'none'}"
            at: Path = ("actions", i, action["kind"], str(field))
            reading.report("reaction.prompt", at, f"no {field} {name!r}", hint)
            continue
        held[name] = prompts[name]
    form["prompts"] = {name: ids.text(ids.content_id(data)) for name, data in held.items()}
    return tuple(held.values())
