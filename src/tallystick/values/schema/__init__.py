"""The schema language: types, lenses, bounds, evolution, and types from annotations.

Owns: type expressions, the one canonical value of each spelling, and additive change.
May import: `errors`, `values.canon`, `values.names`; `datetime` and `uuid` only to recognise them.
Refuses: a value or a type that does not fit, with code and path; it never repairs.
"""

from tallystick.values.schema.annotations import (
    Duration,
    Hash,
    Json,
    Nat,
    Time,
    Where,
    record_of,
    type_of,
)
from tallystick.values.schema.compat import compatible
from tallystick.values.schema.jsontext import parse_json
from tallystick.values.schema.schema import Admitted, LensName, Schema, compile_schema

__all__ = [
    "Admitted",
    "Duration",
    "Hash",
    "Json",
    "LensName",
    "Nat",
    "Schema",
    "Time",
    "Where",
    "compatible",
    "compile_schema",
    "parse_json",
    "record_of",
    "type_of",
]
