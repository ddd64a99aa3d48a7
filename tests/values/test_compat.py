"""Additive change, and old documents under newer shapes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tallystick.errors import BadDefinition, NotCanonical, SchemaMismatch
from tallystick.values import canon
from tallystick.values.schema import compatible
from tests.values.strategies import schema_of, types, values

INT, NAT, TEXT, UNIT, JSON = ({kind: {}} for kind in ("int", "nat", "text", "unit", "json"))


def rec(**fields: Any) -> dict[str, Any]:
    return {"record": fields}


def var(**arms: Any) -> dict[str, Any]:
    return {"variant": arms}


def opt(inner: Any) -> dict[str, Any]:
    return {"option": inner}


def where(inner: Any, **bounds: Any) -> dict[str, Any]:
    return {"where": {"type": inner, **bounds}}


YES = [
    (rec(a=INT), rec(a=INT, b=opt(TEXT))),
    (var(A=INT), var(A=INT, B=TEXT)),
    (INT, opt(INT)),
    (rec(a=INT), rec(a=opt(INT))),
    (where(INT, min=3), where(INT, min=2)),
    (where(INT, max=3), where(INT, max=4)),
    (where(TEXT, max_len=3), where(TEXT, max_len=4)),
    (where(TEXT, min_len=3), where(TEXT, min_len=0)),
    (where(TEXT, min_len=3, max_len=9), where(TEXT, max_len=9)),
    (where(TEXT, one_of=["a"]), where(TEXT, one_of=["b", "a"])),
    (where(TEXT, pattern="a+"), where(TEXT, pattern="a+")),
    (where(TEXT, pattern="a+"), TEXT),
    (where(INT, min=1), opt(where(INT, min=0))),
    (where({"dec128": {}}, min="1.50"), where({"dec128": {}}, min="1.5")),
    ({"list": rec(a=INT)}, {"list": rec(a=INT, b=opt(INT))}),
    ({"set": rec(b=INT)}, {"set": rec(b=INT, a=opt(INT))}),
    ({"map": {"key": TEXT, "value": INT}}, {"map": {"key": TEXT, "value": opt(INT)}}),
    (var(A=rec(a=INT)), var(A=rec(a=INT, b=opt(INT)))),
]
NO = [
    (INT, NAT, ""),
    (NAT, INT, ""),
    (TEXT, JSON, ""),
    (rec(a=INT), JSON, ""),
    (opt(INT), INT, ""),
    (rec(a=INT), rec(), "/record/a"),
    (rec(a=INT), rec(b=INT), "/record/a"),
    (rec(), rec(a=INT), "/record/a"),
    (rec(a=opt(INT)), rec(a=INT), "/record/a"),
    (rec(a=rec(b=INT)), rec(a=rec(b=TEXT)), "/record/a/record/b"),
    (var(A=INT), var(B=INT), "/variant/A"),
    (var(A=UNIT), var(A=INT), "/variant/A"),
    (var(A=UNIT), var(A=opt(INT)), "/variant/A/option"),
    (where(INT, min=2), where(INT, min=3), "/where/min"),
    (where(INT, max=3), where(INT, max=2), "/where/max"),
    (where(INT, max=3), where(INT, max=3, min=0), "/where/min"),
    (where(TEXT, min_len=1), where(TEXT, min_len=2), "/where/min_len"),
    (where(TEXT, max_len=3), where(TEXT, max_len=2), "/where/max_len"),
    (where(TEXT, max_len=3), where(TEXT, max_len=3, pattern="a"), "/where/pattern"),
    (where(TEXT, pattern="a"), where(TEXT, pattern="b"), "/where/pattern"),
    (where(TEXT, one_of=["a", "b"]), where(TEXT, one_of=["a"]), "/where/one_of"),
    (where(TEXT, max_len=3), where(TEXT, one_of=["a"]), "/where/one_of"),
    (TEXT, where(TEXT, pattern="a"), "/where"),
    (where(INT, min=1), where(NAT, min=1), "/where/type"),
    ({"list": INT}, {"set": INT}, ""),
    ({"list": INT}, {"list": TEXT}, "/list"),
    ({"set": INT}, {"set": TEXT}, "/set"),
    ({"map": {"key": TEXT, "value": INT}}, {"map": {"key": INT, "value": INT}}, "/map/key"),
    ({"map": {"key": TEXT, "value": INT}}, {"map": {"key": TEXT, "value": NAT}}, "/map/value"),
]


@pytest.mark.clause("X-20")
@pytest.mark.parametrize(("old", "new"), YES, ids=[f"row{i}" for i in range(len(YES))])
def test_additive_rows(old, new):
    """VA-12: every change marked yes is accepted, and so is no change at all."""
    assert compatible(old, new) is None
    assert compatible(old, old) is None
    assert compatible(new, new) is None


@pytest.mark.clause("X-20")
@pytest.mark.parametrize(("old", "new", "path"), NO, ids=[f"row{i}" for i in range(len(NO))])
def test_breaking_rows(old, new, path):
    """VA-12: every change marked no is refused at its path."""
    assert compatible(old, new) == path


def edited(draw: st.DrawFn, type_: dict[str, Any]) -> dict[str, Any]:
    """The type with one random edit at a random place."""
    ((kind, body),) = type_.items()
    inner = kind in ("list", "set", "option") or (kind in ("record", "variant") and body)
    if kind == "map" and draw(st.booleans()):
        return {"map": {"key": body["key"], "value": edited(draw, body["value"])}}
    if inner and draw(st.integers(0, 2)):
        if kind in ("record", "variant"):
            name = draw(st.sampled_from(sorted(body)))
            return {kind: {**body, name: edited(draw, body[name])}}
        return {kind: edited(draw, body)}
    return local_edit(draw, type_, kind, body)


def local_edit(draw: st.DrawFn, type_: dict[str, Any], kind: str, body: Any) -> dict[str, Any]:
    choices: list[dict[str, Any]] = [{"option": type_}, draw(types())]
    if kind in ("record", "variant"):
        choices.append({kind: {**body, "new": draw(types())}})
        choices.append({kind: {**body, "new": {"option": INT}}})
        choices.extend({kind: {n: t for n, t in body.items() if n != gone}} for gone in body)
    if kind == "where":
        choices.append(body["type"])
        for name in [n for n in body if n in ("min", "max", "min_len", "max_len")]:
            choices.extend({"where": {**body, name: bound}} for bound in (0, 1, 5, 100))
    if kind == "option":
        choices.append(body)
    if kind in ("int", "nat"):
        choices.append({"where": {"type": type_, "max": 5}})
    return draw(st.sampled_from(choices))


@pytest.mark.clause("X-20")
@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(st.data())
def test_compatible_never_lies(data):
    """VA-12: what `compatible` accepts, `admit_older` reads for every old value."""
    old = data.draw(types())
    new = edited(data.draw, old)
    try:
        newer = schema_of(new)
    except BadDefinition:
        assume(False)
    if compatible(old, new) is not None:
        return
    older = schema_of(old)
    for _ in range(3):
        admitted = older.admit(data.draw(values(old)))
        read = newer.admit_older(admitted.bytes)
        assert newer.read(read.bytes).value == read.value
        if older.shape_hash == newer.shape_hash:
            assert read.bytes == admitted.bytes


@pytest.mark.clause("X-20")
def test_old_events_are_read_under_a_newer_shape():
    """VA-13: absent options become null at every depth; old bytes and hashes stay."""
    old = schema_of(rec(id=TEXT, lines={"set": rec(b=NAT)}, how=var(A=rec(n=INT), Idle=UNIT)))
    new = schema_of(
        rec(
            id=opt(TEXT),
            lines={"set": rec(b=NAT, a=opt(TEXT))},
            how=var(A=rec(n=INT, m=opt(INT)), Idle=UNIT, More=TEXT),
            note=opt(TEXT),
        )
    )
    assert compatible(old.type, new.type) is None
    event = old.admit({"id": "o", "lines": [{"b": 300}, {"b": 2}], "how": {"A": {"n": 1}}})
    before = event.bytes, event.hash
    read = new.admit_older(event.bytes)
    assert read.value == {
        "id": "o",
        "how": {"$tag": "A", "$value": {"m": None, "n": 1}},
        "note": None,
        "lines": [{"a": None, "b": 2}, {"a": None, "b": 300}],
    }
    assert read.bytes == canon.encode(read.value)
    assert (event.bytes, event.hash) == before
    assert old.read(event.bytes) == event
    assert new.admit_older(read.bytes).bytes is read.bytes


@pytest.mark.clause("X-20")
def test_older_is_no_laxer_than_that():
    """VA-13: other spellings, unknown fields and broken bytes are refused as read refuses them."""
    new = schema_of(rec(a=opt(INT), s={"set": INT}, v=var(A=UNIT, B=INT)))
    for value, code in [
        ({"s": [], "v": "A"}, "value.wrong_type"),
        ({"s": [2, 1], "v": {"$tag": "A"}}, "value.bad_format"),
        ({"s": [], "v": {"$tag": "A"}, "z": 1}, "value.unknown_field"),
        ({"v": {"$tag": "A"}}, "value.missing_field"),
        ({"s": [], "v": {"$tag": "A", "$value": None}}, "value.bad_variant"),
    ]:
        with pytest.raises(SchemaMismatch) as refused:
            new.admit_older(canon.encode(value))
        assert refused.value.errors[0]["code"] == code
    with pytest.raises(NotCanonical):
        new.admit_older(b"\xa0")
