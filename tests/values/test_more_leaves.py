"""Leaves that random values reach only now and then."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tallystick.errors import SchemaMismatch
from tallystick.values import canon
from tests.values.strategies import schema_of


@pytest.mark.clause("K-12")
@pytest.mark.parametrize("text", ["1.50", "01", "nonsense"])
def test_a_decimal_is_read_in_its_reduced_form_only(text: str):
    """VA-05: canonical bytes hold the one form of a decimal; others are refused, not mended."""
    schema = schema_of({"dec128": {}})
    with pytest.raises(SchemaMismatch) as caught:
        schema.read(canon.encode(text))
    assert caught.value.errors[0]["code"] == "value.bad_format"


def test_a_timedelta_is_a_duration():
    """VA-05: a timedelta becomes whole nanoseconds."""
    assert schema_of({"duration": {}}).admit(timedelta(seconds=2)).value == 2_000_000_000
    assert schema_of({"duration": {}}).admit(5).value == 5


def test_a_number_is_no_key_of_an_object():
    """VA-05: in JSON a numeric key is text or stands in a pair; a bare number is refused."""
    schema = schema_of({"map": {"key": {"int": {}}, "value": {"text": {}}}})
    assert schema.admit({"1": "a"}, "sugar").value == {1: "a"}
    assert schema.admit([[1, "a"]], "sugar").value == {1: "a"}
    with pytest.raises(SchemaMismatch) as caught:
        schema.admit({1: "a"}, "sugar")
    assert caught.value.errors[0]["code"] == "value.wrong_type"


def test_good_leaves_beside_a_bad_one_are_not_blamed():
    """VA-07: when one field is wrong, the faults name that field and no other."""
    schema = schema_of(
        {"record": {"dec": {"dec128": {}}, "span": {"duration": {}}, "word": {"text": {}}}}
    )
    value = {"dec": "1.5", "span": 5, "word": 7}
    with pytest.raises(SchemaMismatch) as admitted:
        schema.admit(value)
    with pytest.raises(SchemaMismatch) as read:
        schema.read(canon.encode(value))
    for caught in (admitted, read):
        assert [each["path"] for each in caught.value.errors] == ["/word"]
