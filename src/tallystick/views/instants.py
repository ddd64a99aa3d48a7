"""Recorded times and runs in the spellings of other programs; pure, so no calendar is asked."""

from __future__ import annotations

from typing import Final


def uuid7(at_ns: int, run_id: str) -> str:
    """A UUIDv7 of the recorded start and the run's own hash: the same for the same run."""
    digits = run_id.partition(":")[2]
    stamp = f"{at_ns // 1_000_000:012x}"
    variant = "89ab"[int(digits[3], 16) & 3]
    return f"{stamp[:8]}-{stamp[8:12]}-7{digits[0:3]}-{variant}{digits[4:7]}-{digits[7:19]}"


def instant(at_ns: int | None) -> str:
    """A recorded time in RFC 3339, to the millisecond, in UTC."""
    seconds, ns = divmod(at_ns or 0, 1_000_000_000)
    days, rest = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}.{ns // 1_000_000:03}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """The date of a day since 1970-01-01, in the Gregorian calendar."""
    year = 1970
    while days >= (length := 366 if _is_leap(year) else 365):
        days -= length
        year += 1
    for month, usual in enumerate(_MONTHS, 1):
        length = usual + (month == 2 and _is_leap(year))
        if days < length:
            return year, month, days + 1
        days -= length
    raise AssertionError("a year has its days")


_MONTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
