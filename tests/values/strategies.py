"""Random schemas and random values of them: type expressions, and native values that fit."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tallystick.values.schema import Schema, compile_schema

FIELDS = ("a", "b", "id", "lines", "note", "order_id", "x.y", "z-1", "_u")
TAGS = ("Created", "Idle", "Ok", "a", "Z-9")
SCALARS = (
    "bool", "int", "nat", "dec128", "bytes", "text", "time", "duration", "hash", "uuid", "unit",
    "json",
)  # fmt: skip
KEYS = ("int", "nat", "text", "uuid", "hash")
I64 = 2**63


def no_refs(name: str) -> Mapping[str, Any]:
    raise KeyError(name)


def schema_of(type_: Mapping[str, Any], name: str = "t/T@1") -> Schema:
    return compile_schema(name, type_, no_refs)


def scalar_types() -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(SCALARS).map(lambda kind: {kind: {}})


def bounded_types() -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(
        [
            {"where": {"type": {"int": {}}, "min": -5, "max": 40}},
            {"where": {"type": {"nat": {}}, "max": 9}},
            {"where": {"type": {"text": {}}, "max_len": 3}},
            {"where": {"type": {"text": {}}, "one_of": ["x", "yy", ""]}},
            {"where": {"type": {"text": {}}, "pattern": "[ab]*c?"}},
            {"where": {"type": {"bytes": {}}, "min_len": 1, "max_len": 4}},
            {"where": {"type": {"dec128": {}}, "min": "-1.5", "max": 2}},
            {"where": {"type": {"list": {"nat": {}}}, "max_len": 2}},
            {"where": {"type": {"set": {"nat": {}}}, "max_len": 1}},
        ]
    )


def _compound(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    no_null = inner.filter(lambda t: next(iter(t)) not in ("option", "unit", "json"))
    key = st.sampled_from(KEYS).map(lambda kind: {kind: {}})
    fields = st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    arms = st.dictionaries(st.sampled_from(TAGS), inner, min_size=1, max_size=3)
    return st.one_of(
        fields.map(lambda parts: {"record": parts}),
        arms.map(lambda parts: {"variant": parts}),
        inner.map(lambda t: {"list": t}),
        inner.map(lambda t: {"set": t}),
        no_null.map(lambda t: {"option": t}),
        st.tuples(key, inner).map(lambda kv: {"map": {"key": kv[0], "value": kv[1]}}),
    )


def types() -> st.SearchStrategy[dict[str, Any]]:
    """Type expressions without references."""
    return st.recursive(st.one_of(scalar_types(), bounded_types()), _compound, max_leaves=8)


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)  # type: ignore[arg-type]
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-I64, 2 * I64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)
decimal_texts = st.one_of(
    st.decimals(-1000, 1000, places=3).map(lambda d: d),
    st.integers(-(10**34) + 1, 10**34 - 1),
    st.sampled_from(["0", "-0.0", "1E40", "15E-40", "1200", "0.0010"]),
)
_hashes = st.binary(min_size=32, max_size=32).map(lambda raw: "sha256:" + raw.hex())
_SCALAR_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.integers(-I64, I64 - 1),
    "nat": st.integers(0, 2 * I64 - 1),
    "dec128": decimal_texts,
    "bytes": st.binary(max_size=30),
    "text": texts,
    "time": st.integers(-I64, I64 - 1),
    "duration": st.integers(-I64, I64 - 1),
    "hash": _hashes,
    "uuid": st.uuids().map(str),
    "unit": st.none(),
    "json": json_values,
}


def _bounded_values(body: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    ((kind, _),) = body["type"].items()
    if "one_of" in body:
        return st.sampled_from(body["one_of"])
    if "pattern" in body:
        return st.from_regex(body["pattern"], fullmatch=True)
    if kind == "dec128":
        return st.decimals("-1.5", 2, places=2)
    if kind in ("int", "nat"):
        return st.integers(body.get("min", 0), body["max"])
    if kind == "bytes":
        return st.binary(min_size=body["min_len"], max_size=body["max_len"])
    if kind == "text":
        return st.text("aé😀", max_size=body["max_len"])
    if kind == "set":
        return st.integers(0, 99).map(lambda n: [n, n])
    return st.lists(st.integers(0, 99), max_size=body["max_len"])


def values(type_: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Native values that fit a type."""
    ((kind, body),) = type_.items()
    if kind in _SCALAR_VALUES:
        return _SCALAR_VALUES[kind]
    if kind == "where":
        return _bounded_values(body)
    if kind == "option":
        return st.one_of(st.none(), values(body))
    if kind in ("list", "set"):
        return st.lists(values(body), max_size=3)
    if kind == "map":
        return st.dictionaries(values(body["key"]), values(body["value"]), max_size=3)
    if kind == "record":
        return st.fixed_dictionaries({name: values(part) for name, part in body.items()})
    return st.one_of([_arm_values(tag, arm) for tag, arm in body.items()])


def _arm_values(tag: str, arm: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if arm == {"unit": {}}:
        return st.just({"$tag": tag})
    return values(arm).map(lambda value: {"$tag": tag, "$value": value})


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """A type expression and a native value that fits it."""
    type_ = draw(types())
    return type_, draw(values(type_))


strange = st.one_of(
    json_values,
    st.binary(max_size=3),
    st.decimals(allow_nan=True),
    st.floats(),
    st.just("\ud800"),
    st.integers(-(2**70), 2**70),
    st.dictionaries(st.sampled_from((*FIELDS, *TAGS, "$tag", "$value")), json_values, max_size=2),
    st.just(Decimal("1.50")),
)
