"""The scalar types, lens by lens: what is accepted, and the one value it becomes.

A leaf takes a value and returns its canonical form, or raises `Misfit`.
Native leaves take what Python code gives, sugar leaves plain JSON, strict leaves canonical values.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from tallystick.values import names
from tallystick.values.schema import decimals, times
from tallystick.values.schema.misfit import Misfit

Leaf = Callable[[Any], Any]

I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1
U64_MAX: Final = 2**64 - 1
EXACT_MAX: Final = 2**53  # beyond this a JSON number may lose digits on its way

_DECIMAL_INT = re.compile(r"0|-?[1-9][0-9]{0,19}", re.ASCII)


def boolean(value: Any) -> bool:
    """A bool, and nothing that merely resembles one."""
    if value is True or value is False:
        return bool(value)
    raise Misfit("wrong_type")


def _plain_int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__pos__(value)
    raise Misfit("wrong_type")


def _between(value: int, low: int, high: int) -> int:
    if low <= value <= high:
        return value
    raise Misfit("out_of_range", f"{low} to {high}")


def integer(value: Any) -> int:
    """An i64."""
    return _between(_plain_int(value), I64_MIN, I64_MAX)


def natural(value: Any) -> int:
    """A u64."""
    return _between(_plain_int(value), 0, U64_MAX)


def _wide(value: Any) -> int:
    # Decimal text is for numbers that JSON readers would round; a quoted 5 is a mistake.
    if type(value) is not str:
        return _plain_int(value)
    number = decimal_int(value)
    if -EXACT_MAX <= number <= EXACT_MAX:
        raise Misfit("wrong_type")
    return number


def decimal_int(text: str) -> int:
    """The integer of a plain decimal text without sign of plus or leading zeros."""
    if _DECIMAL_INT.fullmatch(text) is None:
        raise Misfit("bad_format", "decimal text of an integer")
    return int(text)


def sugar_integer(value: Any) -> int:
    """An i64, as number, or as decimal text beyond 2^53."""
    return _between(_wide(value), I64_MIN, I64_MAX)


def sugar_natural(value: Any) -> int:
    """A u64, as number, or as decimal text beyond 2^53."""
    return _between(_wide(value), 0, U64_MAX)


def dec128(value: Any) -> str:
    """A decimal from Decimal, int or text."""
    if isinstance(value, Decimal):
        return decimals.dec_of_decimal(value)
    return sugar_dec128(value)


def sugar_dec128(value: Any) -> str:
    """A decimal from text or integer; a JSON float has already lost what was meant."""
    if isinstance(value, str):
        return decimals.dec_of_text(str.__str__(value))
    return decimals.dec_of_int(_plain_int(value))


def strict_dec128(value: Any) -> str:
    """A decimal text in its reduced form."""
    if type(value) is not str:
        raise Misfit("wrong_type")
    if not decimals.is_reduced(value):
        raise Misfit("bad_format", "reduced decimal text")
    return value


def octets(value: Any) -> bytes:
    """Bytes or a memoryview."""
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, memoryview)):
        return bytes(memoryview(value))
    raise Misfit("wrong_type")


def sugar_octets(value: Any) -> bytes:
    """Padded base64 of the standard alphabet, with zero bits where bits are unused."""
    if not isinstance(value, str):
        raise Misfit("wrong_type")
    try:
        raw = b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("bad_format", "padded base64") from None
    if b64encode(raw).decode("ascii") != value:
        raise Misfit("bad_format", "padded base64")
    return raw


def strict_octets(value: Any) -> bytes:
    """Exactly bytes."""
    if type(value) is bytes:
        return value
    raise Misfit("wrong_type")


def text(value: Any) -> str:
    """A str that UTF-8 can say."""
    if not isinstance(value, str):
        raise Misfit("wrong_type")
    plain = str.__str__(value)
    try:
        plain.encode("utf-8")
    except UnicodeEncodeError:
        raise Misfit("bad_format", "text without lone surrogates") from None
    return plain


def time(value: Any) -> int:
    """Integer nanoseconds, or an aware datetime."""
    if isinstance(value, datetime):
        return times.time_of_datetime(value)
    return nanoseconds(value)


def sugar_time(value: Any) -> int:
    """RFC 3339 text, or integer nanoseconds."""
    return times.time_of_text(value) if isinstance(value, str) else nanoseconds(value)


def duration(value: Any) -> int:
    """Integer nanoseconds, or a timedelta."""
    if isinstance(value, timedelta):
        return times.span_of_timedelta(value)
    return nanoseconds(value)


def sugar_duration(value: Any) -> int:
    """A text such as `1h30m`, or integer nanoseconds."""
    return times.span_of_text(value) if isinstance(value, str) else nanoseconds(value)


def nanoseconds(value: Any) -> int:
    """Integer nanoseconds within i64."""
    return times.in_range(_plain_int(value))


def hash_text(value: Any) -> str:
    """`sha256:` and 64 lower-case hex digits."""
    if not isinstance(value, str):
        raise Misfit("wrong_type")
    if not names.is_hash(value):
        raise Misfit("bad_format", "sha256:<64 hex>")
    return str.__str__(value)


def uuid(value: Any) -> str:
    """A UUID, or its lower-case text."""
    return str(value) if isinstance(value, UUID) else strict_uuid(value)


def sugar_uuid(value: Any) -> str:
    """The text of a uuid, in either case."""
    return strict_uuid(value.lower() if isinstance(value, str) and value.isascii() else value)


def strict_uuid(value: Any) -> str:
    """The lower-case text of a uuid."""
    if not isinstance(value, str):
        raise Misfit("wrong_type")
    if not names.is_uuid(value):
        raise Misfit("bad_format", "uuid text 8-4-4-4-12")
    return str.__str__(value)


def unit(value: Any) -> None:
    """None."""
    if value is not None:
        raise Misfit("wrong_type")


def sugar_unit(value: Any) -> None:
    """None or the empty object."""
    if value is not None and value != {}:
        raise Misfit("wrong_type")


NATIVE: Mapping[str, Leaf] = {
    "bool": boolean,
    "int": integer,
    "nat": natural,
    "dec128": dec128,
    "bytes": octets,
    "text": text,
    "time": time,
    "duration": duration,
    "hash": hash_text,
    "uuid": uuid,
    "unit": unit,
}
SUGAR: Mapping[str, Leaf] = {
    **NATIVE,
    "int": sugar_integer,
    "nat": sugar_natural,
    "dec128": sugar_dec128,
    "bytes": sugar_octets,
    "time": sugar_time,
    "duration": sugar_duration,
    "uuid": sugar_uuid,
    "unit": sugar_unit,
}
STRICT: Mapping[str, Leaf] = {
    **NATIVE,
    "dec128": strict_dec128,
    "bytes": strict_octets,
    "time": nanoseconds,
    "duration": nanoseconds,
    "uuid": strict_uuid,
}
