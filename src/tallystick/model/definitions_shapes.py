"""Shapes: how one field of a definition is checked and brought to its canonical form.

A shape takes a raw value, its RFC 6901 path and the list of findings.
It answers the canonical value, or `BAD` after it has written why.
Shapes never stop at the first problem: a checker wants all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tallystick.values import names
from tallystick.values.names import nearest

# What the check reports without refusing (02 section 7).
WARNINGS: Final = frozenset(
    {
        "workflow.no_receipt_arm",
        "effect.no_timeout",
        "routing.unreachable_workflow",
        "schema.unused",
        "legacy.note",
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: its code, the definition, the path inside it, a sentence and what to do."""

    code: str
    def_name: str
    path: str
    message: str
    hint: str = ""

    @property
    def warning(self) -> bool:
        """True when the finding alone refuses nothing."""
        return self.code in WARNINGS


@dataclass(slots=True)
class Findings:
    """The problems of one document, in the order they were met."""

    def_name: str = ""
    found: list[Finding] = field(default_factory=list)

    def add(self, code: str, path: str, message: str, hint: str = "") -> Any:
        """Note a problem; answers `BAD`, so that a shape can end with it."""
        self.found.append(Finding(code, self.def_name, path, message, hint))
        return BAD

    @property
    def refused(self) -> bool:
        """True when at least one of the findings is not a warning."""
        return any(not finding.warning for finding in self.found)


Shape = Callable[[Any, str, Findings], Any]

BAD: Final = object()
REQUIRED: Final = object()
ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A row of a definition's table: its shape, and what its absence means.

    With a default of `ABSENT` a null reads as absence; a value equal to the default is removed.
    """

    shape: Shape
    default: Any = REQUIRED


Table = Mapping[str, Field]


def step(path: str, key: object) -> str:
    """The path of a member, escaped as RFC 6901 asks."""
    return f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"


# ---- scalars --------------------------------------------------------------------------------


def text(value: Any, path: str, out: Findings) -> Any:
    """A text that is not empty."""
    if type(value) is str and value:
        return value
    return out.add("def.bad_value", path, "this is a text that is not empty")


def flag(value: Any, path: str, out: Findings) -> Any:
    """True or false."""
    if type(value) is bool:
        return value
    return out.add("def.bad_value", path, "this is true or false")


def nat(value: Any, path: str, out: Findings) -> Any:
    """A whole number from 0 to 2^63-1."""
    if type(value) is int and 0 <= value < 2**63:
        return value
    return out.add("def.bad_value", path, "this is a whole number from 0 to 2^63-1")


def positive(value: Any, path: str, out: Findings) -> Any:
    """A whole number from 1 to 2^63-1."""
    if type(value) is int and 1 <= value < 2**63:
        return value
    return out.add("def.bad_value", path, "this is a whole number from 1 to 2^63-1")


def name(value: Any, path: str, out: Findings) -> Any:
    """The name of a definition, which need not exist yet."""
    if type(value) is str and names.is_definition(value):
        return value
    return out.add(
        "def.bad_name", path, f"{value!r} is not a definition name", "write namespace/Name@1"
    )


def slot(value: Any, path: str, out: Findings) -> Any:
    """The name of a slot, grant, flow or budget."""
    if type(value) is str and names.is_field(value):
        return value
    return out.add("def.bad_name", path, f"{value!r} is not a plain name")


def hash_text(value: Any, path: str, out: Findings) -> Any:
    """`sha256:` and 64 hex digits."""
    if type(value) is str and names.is_hash(value):
        return value
    return out.add("def.bad_value", path, "this is sha256: and 64 lower-case hex digits")


def choice(*words: str) -> Shape:
    """One of a few words."""

    def shape(value: Any, path: str, out: Findings) -> Any:
        if type(value) is str and value in words:
            return value
        return out.add("def.bad_value", path, f"{value!r} is not one of {', '.join(words)}")

    return shape


def data(value: Any, path: str, out: Findings) -> Any:
    """Free JSON, kept as it is: what it means is its schema's business."""
    if value is None or type(value) in (bool, int, str, float):
        return value
    if type(value) is list:
        return [data(item, step(path, i), out) for i, item in enumerate(value)]
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {key: data(value[key], step(path, key), out) for key in value}
    return out.add("def.bad_value", path, f"{type(value).__name__} is not JSON")


def type_expression(value: Any, path: str, out: Findings) -> Any:
    """A type as JSON without its comments; whether it is a good type, the schema compiler says."""
    if isinstance(value, Mapping):
        # No field or tag begins with `$`, so `$comment` is a comment wherever it stands.
        kept = {key: value[key] for key in value if key != "$comment"}
        return {key: type_expression(kept[key], step(path, key), out) for key in kept}
    if type(value) is list:
        return [type_expression(item, step(path, i), out) for i, item in enumerate(value)]
    if type(value) in (str, int, bool):
        return value
    return out.add("schema.unknown_type", path, f"{value!r} is no part of a type")


# ---- compounds ------------------------------------------------------------------------------


def items(shape: Shape, most: int | None = None) -> Shape:
    """A list, with at most so many items."""

    def listed(value: Any, path: str, out: Findings) -> Any:
        if not isinstance(value, list | tuple):
            return out.add("def.bad_value", path, "this is a list")
        if most is not None and len(value) > most:
            return out.add("def.bad_value", path, f"{len(value)} items, at most {most} are taken")
        return [shape(item, step(path, i), out) for i, item in enumerate(value)]

    return listed


def mapping(key: Shape, shape: Shape) -> Shape:
    """An object whose keys all have one shape and whose values all have another."""

    def mapped(value: Any, path: str, out: Findings) -> Any:
        if not isinstance(value, Mapping):
            return out.add("def.bad_value", path, "this is an object")
        kept = [word for word in value if word != "$comment"]
        return {
            key(word, step(path, word), out): shape(value[word], step(path, word), out)
            for word in kept
        }

    return mapped


def record(table: Table) -> Shape:
    """An object with exactly the fields of a table, defaults removed."""

    def shape(value: Any, path: str, out: Findings) -> Any:
        if not isinstance(value, Mapping):
            return out.add("def.bad_value", path, "this is an object")
        return fields_of(table, value, path, out)

    return shape


def fields_of(table: Table, value: Mapping[str, Any], path: str, out: Findings) -> dict[str, Any]:
    """The canonical fields of an object under a table; every problem is noted."""
    for key in value:
        if key not in table and key != "$comment":
            hint = nearest(str(key), list(table))
            out.add("def.unknown_field", step(path, key), f"there is no field {key!r} here", hint)
    canonical: dict[str, Any] = {}
    for key, row in table.items():
        given = value.get(key)
        if given is None and (key not in value or row.default is ABSENT):
            if row.default is REQUIRED:
                out.add("def.missing_field", step(path, key), f"the field {key!r} is required")
            continue
        made = row.shape(given, step(path, key), out)
        if made is not BAD and (type(made) is not type(row.default) or made != row.default):
            canonical[key] = made
    return canonical


def trimmed(shape: Shape) -> Shape:
    """The same shape, with members that came out empty removed: an empty section is no section."""

    def shape_trimmed(value: Any, path: str, out: Findings) -> Any:
        made = shape(value, path, out)
        if isinstance(made, dict):
            return {key: made[key] for key in made if made[key] not in ({}, [])}
        return made

    return shape_trimmed
