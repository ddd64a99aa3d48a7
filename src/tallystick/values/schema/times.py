"""Times and durations: integer nanoseconds inside, RFC 3339 and `90s` at the edge.

Nothing here reads a clock; `datetime` and `timedelta` are recognised because Python code has them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tallystick.values.schema.misfit import Misfit

NS_MIN = -(2**63)
NS_MAX = 2**63 - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = 719_163  # the proleptic ordinal of 1970-01-01
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)
_TIME = "RFC 3339 time with Z or offset, at most 9 fraction digits, or integer ns"
_SPAN = "duration such as 90s, 250ms or 1h30m, or integer ns"

_UNITS = {
    "d": _DAY,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 1_000_000,
    "us": 1000,
    "ns": 1,
}
_PART = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,18}))?(d|h|ms|m|s|us|ns)", re.ASCII)


def in_range(ns: int) -> int:
    """The same count of nanoseconds; refused outside i64."""
    if not NS_MIN <= ns <= NS_MAX:
        raise Misfit("out_of_range", "nanoseconds within i64")
    return ns


def time_of_text(text: str) -> int:
    """Nanoseconds since 1970-01-01Z of an RFC 3339 text; no leap second, no local time."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise Misfit("bad_format", _TIME)
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    fraction = found.group(7) or ""
    if hour > 23 or minute > 59 or second > 59:
        raise Misfit("bad_format", _TIME)
    try:
        days = datetime(year, month, day, tzinfo=UTC).toordinal() - _EPOCH_DAY
    except ValueError:
        raise Misfit("bad_format", _TIME) from None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    if found.group(8) is None:
        away_h, away_m = int(found.group(10)), int(found.group(11))
        if away_h > 23 or away_m > 59:
            raise Misfit("bad_format", _TIME)
        away = away_h * 3600 + away_m * 60
        seconds += away if found.group(9) == "-" else -away
    return in_range(seconds * _SECOND + int(fraction.ljust(9, "0")))


def time_of_datetime(value: datetime) -> int:
    """Nanoseconds of an aware datetime; a naive one has no place on the line and is refused."""
    if value.utcoffset() is None:
        raise Misfit("bad_format", "aware datetime")
    return in_range(_ns(value - _EPOCH))


def span_of_timedelta(value: timedelta) -> int:
    """Nanoseconds of a timedelta."""
    return in_range(_ns(value))


def span_of_text(text: str) -> int:
    """Nanoseconds of `90s`, `-250ms`, `1h30m`: units descend, each at most once."""
    body = text.removeprefix("-")
    total = 0
    pos = 0
    last = _DAY + 1
    while pos < len(body):
        found = _PART.match(body, pos)
        if found is None:
            raise Misfit("bad_format", _SPAN)
        whole, fraction, unit = found.groups()
        scale = _UNITS[unit]
        if scale >= last:
            raise Misfit("bad_format", _SPAN)
        last = scale
        total += int(whole) * scale + _part_ns(fraction, scale)
        pos = found.end()
    if last > _DAY:
        raise Misfit("bad_format", _SPAN)
    return in_range(-total if len(body) < len(text) else total)


def _part_ns(fraction: str | None, scale: int) -> int:
    if fraction is None:
        return 0
    ns, rest = divmod(int(fraction) * scale, int("1" + "0" * len(fraction)))
    if rest:
        raise Misfit("bad_format", "duration without parts of a nanosecond")
    return ns


def text_of_time(ns: int) -> str:
    """RFC 3339 with Z and as many fraction digits as the value needs."""
    days, rest = divmod(ns, _DAY)
    seconds, fraction = divmod(rest, _SECOND)
    day = datetime.fromordinal(days + _EPOCH_DAY)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    tail = f".{fraction:09}".rstrip("0") if fraction else ""
    return f"{day.year:04}-{day.month:02}-{day.day:02}T{clock}{tail}Z"


def text_of_span(ns: int) -> str:
    """The duration in the largest of s, ms, us, ns that divides it."""
    for unit in ("s", "ms", "us"):
        if ns % _UNITS[unit] == 0:
            return f"{ns // _UNITS[unit]}{unit}"
    return f"{ns}ns"


def _ns(delta: timedelta) -> int:
    return delta.days * _DAY + delta.seconds * _SECOND + delta.microseconds * 1000
