"""Type expressions: read once, checked, with every reference inlined.

A type expression is a one-key JSON object; `$comment` beside the key is dropped.
There is no recursion, so a type is a finite tree; its size and depth are bounded here, because two
references in each of thirty types would otherwise unfold to a billion nodes.
Paths in errors are RFC 6901 pointers into the expression with its references inlined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from tallystick.errors import BadDefinition
from tallystick.values import canon, names
from tallystick.values.schema.bounds import bounds_of
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
    bare,
)
from tallystick.values.schema.pointer import under

SCALARS = (
    "bool", "int", "nat", "dec128", "bytes", "text", "time", "duration", "hash", "uuid", "unit",
    "json",
)  # fmt: skip
MAP_KEYS = ("int", "nat", "text", "uuid", "hash")
SECRET = "sys/TextOrSecretRef@1"  # noqa: S105 - the name of a type, not a secret
NODES_MAX = 20_000
REFS_MAX = 100
# The shape hash wraps the type in one map more, and has to stay within the depth of a document.
LEVELS_MAX = canon.DEPTH_MAX - 1

Resolve = Callable[[str], Mapping[str, Any]]


class _Sized(NamedTuple):
    node: Type
    nodes: int
    levels: int


def parse_type(expression: Any, resolve: Resolve) -> Type:
    """The type of an expression; refuses with a `schema.*` code and the path of the fault."""
    return _Parser(resolve).sized(expression, "", 0).node


class _Parser:
    def __init__(self, resolve: Resolve) -> None:
        self.resolve = resolve
        self.known: dict[str, _Sized] = {}
        self.open: list[str] = []

    def sized(self, expression: Any, path: str, level: int) -> _Sized:
        kind, body = _one_key(expression, path)
        if level >= LEVELS_MAX:
            _refuse("unsupported", f"a type nests at most {LEVELS_MAX} levels", path)
        at = under(path, kind)
        if kind == "ref":
            made = self.ref(body, path, level)
        elif kind in SCALARS:
            if body != {}:
                _refuse("unknown_type", f"{kind} is written {{{kind!r}: {{}}}}", at)
            made = _Sized(Scalar(kind), 1, 2)
        elif kind in ("record", "variant"):
            made = self.named_parts(kind, body, at, level)
        elif kind in ("list", "set", "option"):
            made = self.wrapped(kind, body, at, level)
        elif kind == "map":
            made = self.map(body, at, level)
        elif kind == "where":
            made = self.where(body, at, level)
        else:
            _refuse("unknown_type", f"there is no type {kind!r}", path)
        if made.nodes > NODES_MAX:
            _refuse("unsupported", f"the type unfolds to more than {NODES_MAX} nodes", path)
        if level + made.levels > LEVELS_MAX:
            _refuse("unsupported", f"a type nests at most {LEVELS_MAX} levels", path)
        return made

    def ref(self, name: Any, path: str, level: int) -> _Sized:
        at = under(path, "ref")
        if not isinstance(name, str) or not names.is_definition(name):
            _refuse("bad_name", "a ref names a definition as namespace/Name@1", at)
        if name in self.open:
            _refuse("recursive", f"{name} contains itself; json carries recursive data", at)
        known = self.known.get(name)
        if known is None:
            try:
                target = self.resolve(name)
            except KeyError:
                target = None
            if target is None:
                _refuse("unknown_ref", f"{name} is not defined", at)
            if len(self.open) >= REFS_MAX:
                _refuse("unsupported", f"a chain of references has at most {REFS_MAX}", at)
            self.open.append(name)
            known = self.sized(target, path, level)
            self.open.pop()
            if name == SECRET:
                known = known._replace(node=Secret(known.node))
            self.known[name] = known
        return known

    def named_parts(self, kind: str, body: Any, at: str, level: int) -> _Sized:
        if not isinstance(body, Mapping):
            _refuse("unknown_type", f"{kind} holds an object of names and types", at)
        if kind == "variant" and not body:
            _refuse("empty_variant", "a variant has at least one arm", at)
        allowed = names.is_field if kind == "record" else names.is_tag
        parts: list[tuple[str, _Sized]] = []
        for name, part in body.items():
            if not isinstance(name, str) or not allowed(name):
                _refuse("bad_name", f"not the name of a part of a {kind}", under(at, str(name)))
            parts.append((name, self.sized(part, under(at, name), level + 2)))
        parts.sort(key=lambda pair: canon.put_text(pair[0]))
        pairs = tuple((name, part.node) for name, part in parts)
        node = Record(pairs) if kind == "record" else Variant(pairs)
        return _sum(node, [part for _, part in parts], 2)

    def wrapped(self, kind: str, body: Any, at: str, level: int) -> _Sized:
        inner = self.sized(body, at, level + 1)
        if kind == "list":
            return _sum(ListOf(inner.node), [inner], 1)
        if kind == "set":
            return _sum(SetOf(inner.node), [inner], 1)
        plain = bare(inner.node)
        if isinstance(plain, Option) or plain in (Scalar("unit"), Scalar("json")):
            _refuse("ambiguous_option", "null could mean two things here", at)
        return _sum(Option(inner.node), [inner], 1)

    def map(self, body: Any, at: str, level: int) -> _Sized:
        if not isinstance(body, Mapping) or sorted(map(str, body)) != ["key", "value"]:
            _refuse("unknown_type", "a map is written with key and value", at)
        key = self.sized(body["key"], under(at, "key"), level + 2)
        if not isinstance(key.node, Scalar) or key.node.kind not in MAP_KEYS:
            _refuse("bad_map_key", f"map keys are {' '.join(MAP_KEYS)}", under(at, "key"))
        value = self.sized(body["value"], under(at, "value"), level + 2)
        return _sum(MapOf(key.node.kind, value.node), [key, value], 2)

    def where(self, body: Any, at: str, level: int) -> _Sized:
        if not isinstance(body, Mapping) or "type" not in body:
            _refuse("bad_bound", "a where has a type and at least one bound", at)
        inner = self.sized(body["type"], under(at, "type"), level + 2)
        written = {name: bound for name, bound in body.items() if name != "type"}
        bounds = bounds_of(_bound_kind(inner.node), written, at)
        return _sum(Bounded(inner.node, bounds), [inner], 2)


def _bound_kind(node: Type) -> str:
    match node:
        case Scalar(kind):
            return kind
        case ListOf() | SetOf() | MapOf():
            return "items"
        case _:
            return type(node).__name__.lower()


def _one_key(expression: Any, path: str) -> tuple[str, Any]:
    if not isinstance(expression, Mapping):
        _refuse("unknown_type", "a type is an object with one key", path)
    keys = [key for key in expression if key != "$comment"]
    if len(keys) != 1 or not isinstance(keys[0], str):
        _refuse("unknown_type", "a type is an object with one key", path)
    return keys[0], expression[keys[0]]


def _sum(node: Type, parts: Iterable[_Sized], levels: int) -> _Sized:
    nodes = 1
    below = 0
    for part in parts:
        nodes += part.nodes
        below = max(below, part.levels)
    return _Sized(node, nodes, levels + below)


def _refuse(code: str, message: str, path: str) -> NoReturn:
    raise BadDefinition(message, code=f"schema.{code}", where={"path": path})
