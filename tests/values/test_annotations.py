"""Types from Python annotations."""

import dataclasses
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest

from tallystick.errors import BadDefinition
from tallystick.values.schema import (
    Duration,
    Hash,
    Json,
    Nat,
    Time,
    Where,
    record_of,
    type_of,
)
from tests.values.strategies import schema_of


@dataclasses.dataclass(frozen=True)
class Line:
    sku: str
    count: Nat
    note: str | None = None


class Payment(msgspec.Struct, frozen=True):
    cents: Nat


class Loose(TypedDict):
    a: int
    b: NotRequired[str]


class Partial(TypedDict, total=False):
    a: int
    b: str | None


@dataclasses.dataclass(frozen=True)
class Order:
    lines: list[Line]
    paid: Payment


@dataclasses.dataclass(frozen=True)
class Loop:
    again: "list[Loop]"


@dataclasses.dataclass(frozen=True)
class Lost:
    what: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 - a name that nobody defined


class Pair(NamedTuple):
    a: int


class Colour(Enum):
    RED = 1
    BLUE = 2


class Odd(Enum):
    _x = 1


OrderId = NewType("OrderId", str)
LINE = {"record": {"sku": {"text": {}}, "count": {"nat": {}}, "note": {"option": {"text": {}}}}}
PAYMENT = {"record": {"cents": {"nat": {}}}}
DERIVED = [
    (bool, {"bool": {}}),
    (int, {"int": {}}),
    (Nat, {"nat": {}}),
    (str, {"text": {}}),
    (bytes, {"bytes": {}}),
    (Decimal, {"dec128": {}}),
    (datetime, {"time": {}}),
    (Time, {"time": {}}),
    (timedelta, {"duration": {}}),
    (Duration, {"duration": {}}),
    (Hash, {"hash": {}}),
    (UUID, {"uuid": {}}),
    (None, {"unit": {}}),
    (Json, {"json": {}}),
    (OrderId, {"text": {}}),
    (int | None, {"option": {"int": {}}}),
    (Nat | None, {"option": {"nat": {}}}),
    (list[str], {"list": {"text": {}}}),
    (tuple[str, ...], {"list": {"text": {}}}),
    (set[int], {"set": {"int": {}}}),
    (frozenset[int], {"set": {"int": {}}}),
    (dict[str, int], {"map": {"key": {"text": {}}, "value": {"int": {}}}}),
    (Line, LINE),
    (Payment, PAYMENT),
    (Loose, {"record": {"a": {"int": {}}, "b": {"option": {"text": {}}}}}),
    (Partial, {"record": {"a": {"option": {"int": {}}}, "b": {"option": {"text": {}}}}}),
    (Order, {"record": {"lines": {"list": LINE}, "paid": PAYMENT}}),
    (Line | Payment, {"variant": {"Line": LINE, "Payment": PAYMENT}}),
    (Line | Payment | None, {"option": {"variant": {"Line": LINE, "Payment": PAYMENT}}}),
    (Colour, {"variant": {"RED": {"unit": {}}, "BLUE": {"unit": {}}}}),
    (Literal["a", "b"], {"variant": {"a": {"unit": {}}, "b": {"unit": {}}}}),
    (Annotated[str, Where(max_len=80)], {"where": {"type": {"text": {}}, "max_len": 80}}),
    (Annotated[Nat, Where(max=9)], {"where": {"type": {"nat": {}}, "max": 9}}),
    (
        Annotated[str, Where(one_of=("a",), min_len=1), Where(pattern="a*")],
        {"where": {"type": {"text": {}}, "one_of": ["a"], "min_len": 1, "pattern": "a*"}},
    ),
    (Annotated[int, "a note"], {"int": {}}),
]


@pytest.mark.clause("K-03")
@pytest.mark.parametrize(
    ("annotation", "expected"), DERIVED, ids=[f"row{i}" for i in range(len(DERIVED))]
)
def test_each_row_derives_its_type(annotation, expected):
    """VA-19: each row of the table derives the given type, and the type compiles."""
    assert type_of(annotation) == expected
    schema_of(expected)


REFUSED = [
    (float, "unsupported", ""),
    (complex, "unsupported", ""),
    (Any, "unsupported", ""),
    (object, "unsupported", ""),
    (dict, "unsupported", ""),
    (list, "unsupported", ""),
    (tuple[int, str], "unsupported", ""),
    (tuple[int], "unsupported", ""),
    (Pair, "unsupported", ""),
    (date, "unsupported", ""),
    (list[float], "unsupported", ""),
    (int | str, "unsupported", ""),
    (type[int], "unsupported", ""),
    (Literal[1, 2], "unsupported", ""),
    (Lost, "unsupported", ""),
    (Literal["a b"], "bad_name", ""),
    (Odd, "bad_name", ""),
    (Json | None, "ambiguous_option", ""),
    (Loop, "recursive", "/again"),
    ("text", "unsupported", ""),
]


@pytest.mark.clause("K-03")
@pytest.mark.parametrize(
    ("annotation", "code", "path"), REFUSED, ids=[f"row{i}" for i in range(len(REFUSED))]
)
def test_each_refused_annotation_gives_the_hint(annotation, code, path):
    """VA-19: what has no canonical form is refused with the hint."""
    with pytest.raises(BadDefinition) as refused:
        type_of(annotation)
    assert refused.value.code == "schema." + code
    assert refused.value.hint == "use Decimal, or Json for free-form data"
    assert refused.value.where["path"] == path


@pytest.mark.clause("K-03")
def test_a_named_class_becomes_a_ref():
    """VA-19: a class with a name is a ref; its own definition is its record."""

    def name_of(cls: type) -> str | None:
        return f"shop/{cls.__name__}@1" if cls is not Payment else None

    assert type_of(Order, name_of) == {"ref": "shop/Order@1"}
    expected = {"lines": {"list": {"ref": "shop/Line@1"}}, "paid": PAYMENT}
    assert record_of(Order, name_of) == {"record": expected}
    assert type_of(Line | Payment, name_of) == {
        "variant": {"Line": {"ref": "shop/Line@1"}, "Payment": PAYMENT}
    }


@pytest.mark.clause("K-03")
def test_values_of_the_classes_are_admitted():
    """VA-19: what the annotations derive admits instances of the classes."""
    order = schema_of(type_of(Order))
    admitted = order.admit(Order(lines=[Line("a", 1)], paid=Payment(cents=5)))
    assert admitted.value == {
        "paid": {"cents": 5},
        "lines": [{"sku": "a", "note": None, "count": 1}],
    }
    either = schema_of(type_of(Line | Payment))
    assert either.admit(Payment(cents=5)).value == {"$tag": "Payment", "$value": {"cents": 5}}
    assert schema_of(type_of(Colour)).admit(Colour.RED).value == {"$tag": "RED"}
