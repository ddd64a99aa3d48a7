"""Properties of schemas over random types and values."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.values import canon
from tallystick.values.schema import lens as lenses
from tallystick.values.schema import parse_json
from tallystick.values.schema.judge import judged
from tallystick.values.schema.pointer import under
from tests.values.strategies import schema_of, strange, typed_values, types, values

calm = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.clause("K-10")
@calm
@given(typed_values(), st.sampled_from(["sugar", "tagged"]))
def test_render_and_admit_are_inverse(case, lens):
    """VA-06: admit(render(v, lens)) gives v and the same bytes, also through JSON text."""
    type_, value = case
    schema = schema_of(type_)
    first = schema.admit(value)
    again = schema.admit(schema.render(first.value, lens), lens)
    assert again.value == first.value
    assert again.bytes == first.bytes
    through = json.dumps(schema.render(first.value, lens))
    if depth_of(schema.render(first.value, lens)) <= 64:
        assert schema.admit(parse_json(through), lens).bytes == first.bytes


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@pytest.mark.clause("K-10")
@calm
@given(typed_values())
def test_bytes_are_the_canonical_encoding_and_read_back(case):
    """VA-05, VA-06: the fused encoder writes what canon.encode would, and read keeps the bytes."""
    type_, value = case
    schema = schema_of(type_)
    admitted = schema.admit(value)
    assert admitted.bytes == canon.encode(admitted.value)
    read = schema.read(admitted.bytes)
    assert read.value == admitted.value
    assert read.bytes is admitted.bytes
    assert schema.admit(admitted.value).bytes == admitted.bytes


@pytest.mark.clause("K-10")
@calm
@given(typed_values())
def test_an_expected_value_is_as_fresh_as_one_that_was_read(case):
    """VA-05: what `expect` keeps is, member for member and in order, what reading gives anew."""
    type_, value = case
    schema = schema_of(type_)
    admitted = schema.admit(value)
    schema.expect(admitted)
    kept, read = schema.plain(admitted.bytes), schema.plain(admitted.bytes)
    assert repr(kept) == repr(read)  # which tells 1 from True, and shows the order of fields
    assert kept is not admitted.value or not isinstance(kept, dict)


def test_expected_values_are_forgotten_when_many_and_shared_with_nobody():
    """VA-05: changing a kept value changes no other, and a full memory only means reading."""
    schema = schema_of({"record": {"n": {"nat": {}}, "t": {"option": {"text": {}}}}})
    many = [schema.admit({"n": n, "t": None}) for n in range(5000)]
    for admitted in many:
        schema.expect(admitted)
        schema.expect(admitted)
    first = schema.plain(many[-1].bytes)
    first["n"] = "changed"
    assert many[-1].value == {"n": 4999, "t": None}
    assert [schema.plain(each.bytes) for each in many] == [each.value for each in many]


class Stranger:
    """Fits no type."""


def places(value: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Every member of a JSON-like value: its path, its container and its key there."""
    found = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    else:
        return []
    for key, inner in members:
        at = under(path, key if isinstance(key, int) and isinstance(value, list) else str(key))
        found.append((at, value, key))
        found.extend(places(inner, at))
    return found


@pytest.mark.clause("K-09")
@calm
@given(typed_values(), st.sampled_from(["native", "sugar", "tagged"]), st.randoms())
def test_a_planted_fault_is_reported_at_its_path(case, lens, chance):
    """VA-07: a fault planted at a random path is reported at that path, with all four parts."""
    type_, value = case
    schema = schema_of(type_)
    given_value = schema.render(schema.admit(value).value, lens)
    # A copy that nothing shares; native values may hold bytes, so not through JSON.
    given_value = copied(given_value)
    spots = places(given_value)
    if not spots:
        with pytest.raises(SchemaMismatch) as refused:
            schema.admit(Stranger(), lens)
        assert refused.value.errors[0]["path"] == ""
        return
    path, container, key = chance.choice(spots)
    container[key] = Stranger()
    with pytest.raises(SchemaMismatch) as refused:
        schema.admit(given_value, lens)
    # A tag is no position of its own: its fault is one of the variant that it belongs to.
    is_tag = key == "$tag" or (lens == "tagged" and key == "tag")
    expected = path.rpartition("/")[0] if is_tag else path
    assert refused.value.code == "value.mismatch"
    assert expected in [error["path"] for error in refused.value.errors]
    for error in refused.value.errors:
        assert sorted(error) == ["code", "expected", "got", "path"]
        assert error["expected"]
        assert 0 < len(error["got"]) <= 80
        assert error["code"].startswith("value.")


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


@pytest.mark.clause("K-09")
@settings(calm, max_examples=60)
@given(st.data())
def test_hot_path_and_slow_pass_agree(data):
    """VA-07: the closures accept exactly what the judge accepts, with the same value."""
    type_ = data.draw(types())
    if data.draw(st.booleans()):
        value = copied(data.draw(values(type_)))
        spots = places(value)
        if spots:
            _, container, key = spots[data.draw(st.integers(0, len(spots) - 1))]
            container[key] = data.draw(strange)
    else:
        value = data.draw(strange)
    schema = schema_of(type_)
    lens = data.draw(st.sampled_from(["native", "sugar"]))
    node = schema._node
    canonical, errors = judged(node, value, {"native": lenses.NATIVE, "sugar": lenses.SUGAR}[lens])
    out: list[bytes] = []
    put = schema._put if lens == "native" else schema._compile_sugar()
    try:
        hot = put(value, out)
    except (lenses.Misfit, UnicodeEncodeError):  # type: ignore[attr-defined]
        assert errors
    else:
        assert not errors
        assert canon.encode(hot) == canon.PREFIX + b"".join(out)
        assert schema.admit(canonical).bytes == canon.PREFIX + b"".join(out)


def decoded(data: bytes) -> tuple[str, Any]:
    try:
        return "", canon.decode(data)
    except NotCanonical as bad:
        return bad.code, None


@pytest.mark.clause("K-12")
@settings(calm, max_examples=60)
@given(st.data())
def test_read_takes_exactly_the_canonical_documents(data):
    """VA-05: the hot readers accept exactly what strict decoding and the strict lens accept."""
    written, value = data.draw(typed_values())
    document = bytearray(schema_of(written).admit(value).bytes)
    if data.draw(st.booleans()):
        document[data.draw(st.integers(3, len(document) - 1))] = data.draw(st.integers(0, 255))
    type_ = written if data.draw(st.booleans()) else data.draw(types())
    schema = schema_of(type_)
    taken = bytes(document)
    code, plain = decoded(taken)
    if code:
        with pytest.raises(NotCanonical) as refused:
            schema.read(taken)
        assert refused.value.code == code
        assert schema.exact(taken) is None
        return
    _, errors = judged(schema._node, plain, lenses.STRICT)
    if errors:
        with pytest.raises(SchemaMismatch):
            schema.read(taken)
        assert schema.exact(taken) is None
    else:
        assert schema.read(taken).value == plain
        assert schema.admit(plain).bytes == taken
        assert schema.exact(taken) == schema.read(taken)
        assert schema.exact(taken).value == plain


@pytest.mark.clause("K-10")
@calm
@given(typed_values(), st.randoms())
def test_order_of_sets_and_maps_never_matters(case, chance):
    """VA-11: input order of sets, maps and fields changes nothing."""
    type_, value = case
    for wrapped, many in (
        ({"set": type_}, [value, value]),
        ({"map": {"key": {"text": {}}, "value": type_}}, {"b": value, "aa": value, "a": value}),
    ):
        schema = schema_of(wrapped)
        assert schema.admit(many).bytes == schema.admit(shuffled(many, chance)).bytes
    schema = schema_of(type_)
    assert schema.admit(value).bytes == schema.admit(shuffled_fields(value, chance)).bytes


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        return dict(items)
    items = list(value)
    chance.shuffle(items)
    return items


def shuffled_fields(value: Any, chance: random.Random) -> Any:
    """Keys of every map in another order; lists keep theirs."""
    if isinstance(value, dict):
        mixed = shuffled(value, chance)
        return {key: shuffled_fields(item, chance) for key, item in mixed.items()}
    if isinstance(value, list):
        return [shuffled_fields(item, chance) for item in value]
    return value


@pytest.mark.clause("K-10")
@calm
@given(st.lists(st.integers(-100, 100), max_size=8), st.randoms())
def test_a_set_of_integers_is_one_value_in_any_order(numbers, chance):
    """VA-11: sets given as list, shuffled list, set and frozenset have equal bytes."""
    schema = schema_of({"set": {"int": {}}})
    one = schema.admit(numbers)
    assert schema.admit(shuffled(numbers, chance) + numbers).bytes == one.bytes
    assert schema.admit(set(numbers)).bytes == one.bytes
    assert schema.admit(frozenset(numbers)).bytes == one.bytes
    assert one.value == sorted(set(numbers), key=canon.encode_item)


@pytest.mark.clause("K-10")
def test_ten_thousand_decimals():
    """VA-10: equal values give equal text, text reads back equal, over-precision is refused."""
    chance = random.Random(20)
    schema = schema_of({"dec128": {}})
    texts: dict[str, Decimal] = {}
    for _ in range(10_000):
        digits = chance.randrange(1, 36)
        coefficient = chance.randrange(10**digits) * chance.choice((1, -1))
        exponent = chance.choice((0, -2, chance.randrange(-45, 45), chance.randrange(-6300, 6200)))
        value = Decimal((int(coefficient < 0), tuple(map(int, str(abs(coefficient)))), exponent))
        reduced = str(abs(coefficient)).rstrip("0") or "0"
        shift = exponent + len(str(abs(coefficient))) - len(reduced)
        fits = reduced == "0" or (len(reduced) <= 34 and -6176 <= shift <= 6111)
        if not fits:
            with pytest.raises(SchemaMismatch) as refused:
                schema.admit(value)
            assert refused.value.errors[0]["code"] == "value.out_of_range"
            continue
        text = schema.admit(value).value
        assert Decimal(text) == value
        assert schema.admit(text).value == text
        assert schema.admit(str(value), "sugar").value == text
        wider = Decimal((int(coefficient < 0), (*map(int, str(abs(coefficient))), 0), exponent - 1))
        assert schema.admit(wider).value == text
        assert texts.setdefault(text, value) == value
