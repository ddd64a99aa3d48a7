"""Lengths and moments that a playbook computes: `2h`, 90, `2026-11-16T08:00:00Z`.

What is neither is an error with its code, never a wait of no time.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tallystick.values.expr import ExpressionFault

_SECOND: Final = 10**9
_UNITS: Final = {"ms": 10**6, "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND}
_LENGTH: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) *(ms|s|m|h|d)?", re.ASCII)
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)
NEVER: Final = 2**62


def length_ns(value: Any) -> int:
    """Nanoseconds of seconds or of a text with a unit; P126 for anything else."""
    if type(value) in (int, float) and 0 <= value < NEVER // _SECOND:
        return int(value * _SECOND)
    found = _LENGTH.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        unit = _UNITS.get(found[2] or "s", 86_400 * _SECOND)
        return min(int(float(found[1]) * unit), NEVER)
    raise _refused(value, "a length of time", 'seconds, or "500ms", "30s", "5m", "2h", "1d"')


def moment_ns(value: Any) -> int:
    """Nanoseconds since 1970 of seconds since then or of a text with its zone; P126 else."""
    if type(value) in (int, float) and 0 <= value < NEVER // _SECOND:
        return int(value * _SECOND)
    found = _MOMENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not _is_date([int(found[i]) for i in range(1, 7)]):
        raise _refused(value, "a moment", '"2026-11-16T08:00:00Z", or seconds since 1970')
    year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    if found[8] is not None:
        away = int(found[9]) * 3600 + int(found[10]) * 60
        seconds += -away if found[8] == "+" else away
    return max(0, seconds * _SECOND + int((found[7] or "0").ljust(9, "0")))


def _is_date(parts: list[int]) -> bool:
    year, month, day, hour, minute, second = parts
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    fits = 1 <= month <= 12 and 1 <= day <= lengths[month - 1]
    return fits and hour < 24 and minute < 60 and second < 60


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970; a year begins in March here, so that a leap day is its last."""
    year -= month <= 2
    since = (month + 9) % 12
    before = 365 * year + year // 4 - year // 100 + year // 400
    return before + (153 * since + 2) // 5 + day - 1 - 719_468


def _refused(value: Any, what: str, hint: str) -> ExpressionFault:
    return ExpressionFault(f"{str(value)[:80]!r} is not {what}", code="P126", hint=hint)
