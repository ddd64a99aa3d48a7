"""The slow pass: every fault with its path, and the one reading of tagged JSON.

The hot closures only say that a value does not fit. `Judge` walks the value again under the same
lens, collects at most 16 faults depth first, and gives the canonical value when there is none.
It is also the reference: where it finds no fault the hot path must have found none, except at
`{"$tagged": X}`, which only this pass knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from tallystick.values import canon
from tallystick.values.schema import lens as lenses
from tallystick.values.schema.freeform import json_leaf
from tallystick.values.schema.got import describe, token_of, type_name
from tallystick.values.schema.lens import ABSENT, InPair, Lens
from tallystick.values.schema.misfit import Misfit
from tallystick.values.schema.nodes import (
    Bounded,
    ListOf,
    MapOf,
    Option,
    Record,
    Scalar,
    Secret,
    SetOf,
    Type,
    Variant,
    base_of,
    holds_secret,
    is_option,
    is_unit,
)
from tallystick.values.schema.pointer import under

ERRORS_MAX: Final = 16
REDACTED: Final = "(redacted)"


class _Full(Exception):  # noqa: N818 - a signal: enough faults were found
    pass


def judged(node: Type, value: Any, lens: Lens) -> tuple[Any, list[dict[str, str]]]:
    """The canonical value and no findings, or ABSENT and up to 16 of them."""
    judge = _Judge(lens)
    try:
        result = judge.visit(node, value, "", 0)
    except _Full:
        return ABSENT, judge.errors
    return (ABSENT if judge.errors else result), judge.errors


class _Judge:
    """One walk over one value."""

    __slots__ = ("errors", "hidden", "lens")

    def __init__(self, lens: Lens) -> None:
        self.lens = lens
        self.errors: list[dict[str, str]] = []
        self.hidden = 0  # how many secret positions we are inside of

    def fault(self, misfit: Misfit, node: Type | None, value: Any, path: str) -> Any:
        """Write a finding down; the walk goes on beside it."""
        hide = self.hidden or (node is not None and holds_secret(node))
        name = type_name(node) if node is not None else ""
        self.errors.append(
            {
                "code": f"value.{misfit.code}",
                "path": path,
                "expected": misfit.expected or name,
                "got": REDACTED if hide and value is not ABSENT else describe(value),
            }
        )
        if len(self.errors) >= ERRORS_MAX:
            raise _Full
        return ABSENT

    def visit(self, node: Type, value: Any, path: str, depth: int) -> Any:
        """One position: the canonical value, or ABSENT with a finding."""
        # tidy: the wrappers of a type in the order in which they are taken off.
        if self.lens is lenses.SUGAR and _switches(node, value):
            self.lens = lenses.TAGGED
            result = self.visit(node, value["$tagged"], under(path, "$tagged"), depth)
            self.lens = lenses.SUGAR
            return result
        match node:
            case Secret(inner):
                self.hidden += 1
                result = self.visit(inner, value, path, depth)
                self.hidden -= 1
                return result
            case Option(inner):
                if self.lens is lenses.TAGGED:
                    null = isinstance(value, dict) and "null" in value
                    return self.visit(Scalar("unit") if null else inner, value, path, depth)
                return None if value is None else self.visit(inner, value, path, depth)
            case Bounded(inner):
                before = len(self.errors)
                result = self.visit(inner, value, path, depth)
                # Bounds are those of a whole value; one with faults inside is not measured.
                sound = len(self.errors) == before
                return self.bounded(node, result, value, path) if sound else ABSENT
        try:
            if self.lens is lenses.TAGGED:
                value = lenses.unwrapped(_tag_of(node), value)
                path = under(path, _tag_of(node))
            return self.parts(node, value, path, depth)
        except Misfit as misfit:
            return self.fault(misfit, node, value, path)

    def bounded(self, node: Bounded, result: Any, value: Any, path: str) -> Any:
        """A canonical value against the bounds of its `where`."""
        try:
            node.bounds.check()(result)
        except Misfit as misfit:
            return self.fault(misfit, node, value, path)
        return result

    def parts(self, node: Type, value: Any, path: str, depth: int) -> Any:
        """A type inside its tag, if it had one; a Misfit raised here is one of the whole."""
        match node:
            case Scalar("json"):
                return self.json(value, path, depth)
            case Scalar(kind):
                return self.lens.leaves[kind](value)
            case Record():
                return self.record(node, self.lens.record(value), path, depth)
            case Variant():
                return self.variant(node, value, path, depth)
            case ListOf(item):
                return self.items(item, self.lens.items(value), path, depth)
            case SetOf(item):
                members = self.lens.members(value)
                if isinstance(value, (set, frozenset)):
                    # Faults of a set are found in one order, whatever the seed of its hashes.
                    members = sorted(members, key=describe)
                return self.members(item, members, path, depth)
            case MapOf():
                return self.map(node, value, path, depth)
            case _:
                raise AssertionError(node)

    def record(self, node: Record, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        """Every declared field, and no other."""
        result: dict[str, Any] = {}
        for name, field in node.fields:
            at = under(path, name)
            if name in value:
                result[name] = self.visit(field, value[name], at, depth + 1)
            elif is_option(field) and self.lens.absent_is_null:
                result[name] = None
            else:
                self.fault(Misfit("missing_field"), field, ABSENT, at)
        for given in value:
            if given not in result and not any(given == known for known, _ in node.fields):
                # Inside a secret not even the names of stray fields are shown.
                at = path if self.hidden else under(path, token_of(given))
                self.fault(Misfit("unknown_field", "no such field"), None, value[given], at)
        return result

    def variant(self, node: Variant, value: Any, path: str, depth: int) -> Any:
        """A tag that exists, with a value where its arm has one."""
        tag, inner, step = self.lens.arm(value)
        arm = dict(node.arms).get(tag)
        if arm is None:
            raise Misfit("unknown_tag", "one of " + ", ".join(name for name, _ in node.arms))
        at = under(path, step) if step else path
        if is_unit(arm):
            if inner is not ABSENT and self.lens.canonical:
                raise Misfit("bad_variant", f"arm {tag} without $value")
            if inner is not ABSENT:
                self.visit(arm, inner, at, depth + 1)
            return {"$tag": tag}
        if inner is ABSENT:
            raise Misfit("bad_variant", f"a value for arm {tag}")
        return {"$tag": tag, "$value": self.visit(arm, inner, at, depth + 1)}

    def items(self, item: Type, value: Sequence[Any], path: str, depth: int) -> Any:
        """The items of a list."""
        return [self.visit(item, part, under(path, i), depth + 1) for i, part in enumerate(value)]

    def members(self, item: Type, value: Sequence[Any], path: str, depth: int) -> Any:
        """The elements of a set; canonical ones have to stand in order."""
        if self.lens.canonical:
            encoded = [canon.encode_item(part) for part in value]
            if any(a >= b for a, b in pairwise(encoded)):
                raise Misfit("bad_format", "elements sorted by encoding, without repeats")
        before = len(self.errors)
        read = self.items(item, value, path, depth)
        if len(self.errors) > before:
            return ABSENT
        found = {canon.encode_item(part): part for part in read}
        return [found[encoded] for encoded in sorted(found)]

    def map(self, node: MapOf, value: Any, path: str, depth: int) -> Any:
        """Keys of one kind, different after normalisation."""
        result: dict[Any, Any] = {}
        for key, key_at, part, at in self.entries(node, value, path):
            if key is not ABSENT and key in result:
                self.fault(Misfit("duplicate_key", "keys that differ"), None, key, key_at)
            read = self.visit(node.value, part, at, depth + 1)
            if key is not ABSENT:
                result[key] = read
        return result

    def entries(self, node: MapOf, value: Any, path: str) -> Iterator[tuple[Any, str, Any, str]]:
        """Each key as read with its place, and each value with its own."""
        in_list = self.lens is lenses.TAGGED or (
            self.lens is lenses.SUGAR and node.key in ("int", "nat") and isinstance(value, list)
        )
        if not in_list:
            for given, part in self.lens.pairs(value, node.key):
                at = path if self.hidden else under(path, token_of(given))
                yield self.key(node, given, given, at), at, part, at
            return
        for i, entry in enumerate(self.lens.items(value)):
            spot = under(path, i)
            try:
                key_step, given, part_step, part = lenses.entry_of(self.lens, entry)
            except Misfit as misfit:
                self.fault(misfit, node, entry, spot)
                continue
            at = under(spot, key_step)
            if self.lens is lenses.TAGGED:
                key = self.visit(Scalar(node.key), given, at, 0)
            else:
                key = self.key(node, InPair(given), given, at)
            yield key, at, part, under(spot, part_step)

    def key(self, node: MapOf, given: Any, shown: Any, path: str) -> Any:
        """One key, or ABSENT with a finding."""
        try:
            return self.lens.keys[node.key](given)
        except Misfit as misfit:
            return self.fault(misfit, Scalar(node.key), shown, path)

    def json(self, value: Any, path: str, depth: int) -> Any:
        """Free-form data; each fault at its own place."""
        try:
            value = json_leaf(value, depth)
        except Misfit as misfit:
            return self.fault(misfit, Scalar("json"), value, path)
        if isinstance(value, Mapping):
            return self.json_object(value, path, depth)
        if isinstance(value, (list, tuple)):
            return [self.json(item, under(path, i), depth + 1) for i, item in enumerate(value)]
        return value

    def json_object(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        """A text-keyed map of free-form data."""
        result: dict[str, Any] = {}
        for name in value:
            at = under(path, token_of(name))
            try:
                key = lenses.NATIVE.leaves["text"](name)
            except Misfit as misfit:
                self.fault(Misfit(misfit.code, "text key"), None, name, at)
                continue
            result[key] = self.json(value[name], at, depth + 1)
        return result


def _switches(node: Type, value: Any) -> bool:
    if not isinstance(value, dict) or len(value) != 1 or "$tagged" not in value:
        return False
    base = base_of(node)
    return not isinstance(base, MapOf) and base != Scalar("json")


_TAGS: Final = {"bytes": "bytes_b64", "time": "time_ns", "duration": "duration_ns", "unit": "null"}


def _tag_of(node: Type) -> str:
    name = type_name(node)
    return _TAGS.get(name, name)
