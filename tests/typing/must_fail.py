"""Lines that a type checker must refuse; each says with which code, and none is ever run.

A line that stops being refused means that a promise of the types was lost.
"""

from __future__ import annotations

from tallystick import Effect, Record
from tallystick.errors import LimitExceeded, NotCanonical, SchemaMismatch, UnknownName
from tallystick.model.limits import Limits
from tallystick.values import canon
from tallystick.values.expr import compile_expression
from tallystick.values.schema import Admitted, Schema


def errors_are_typed() -> None:
    UnknownName("no such name", "name.unknown")  # error: [call-arg]
    NotCanonical("bad bytes", code="cbor.tag")  # error: [call-arg]
    LimitExceeded("fuel", "many", 3)  # error: [arg-type]
    SchemaMismatch("bad", schema=7)  # error: [arg-type]


def values_are_typed(schema: Schema, admitted: Admitted) -> None:
    canon.decode("text")  # error: [arg-type]
    size: int = canon.encode(1)  # error: [assignment]
    schema.read("text")  # error: [arg-type]
    admitted.digest.lower().encode()  # error: [attr-defined]
    compile_expression("a > 1", strict="yes")  # error: [arg-type]
    compile_expression("a > 1", True)  # error: [call-arg]
    print(size)


def nouns_are_frozen(limits: Limits) -> None:
    limits.effects_max = 3  # error: [misc]


class Got(Record):
    n: int


class Work(Effect[Got], executor="work"):
    n: int


def records_are_typed(got: Got) -> None:
    Got()  # error: [call-arg]
    Got(n="one")  # error: [arg-type]
    Work(m=1)  # error: [call-arg]
    got.n = 3  # error: [misc]
