"""dec128: one text for one number.

A value is c x 10^e with c not divisible by 10; zero is `0`.
Plain notation when -34 <= e <= 0, or when e > 0 and digits(c) + e <= 34; else `<c>E<e>`.
Everything is done on digits, so nothing is rounded and no context of `decimal` matters.
"""

from __future__ import annotations

import re
from decimal import Decimal

from tallystick.values.schema.misfit import Misfit

DIGITS_MAX = 34
EXPONENT_MIN = -6176
EXPONENT_MAX = 6111

# The grammar of a JSON number: no leading zeros, no plus, no bare point.
_TEXT = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)
# An integer with more bits than this is over the range, whatever its digits are.
_BITS_MAX = 20_600


def dec_of_text(text: str) -> str:
    """The reduced form of a decimal text; refuses other grammar and values out of range."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise Misfit("bad_format", "decimal text")
    sign, whole, fraction, exponent = found.groups()
    fraction = fraction or ""
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"
    return _reduced(sign, digits, _exponent(exponent) - len(fraction))


def dec_of_int(value: int) -> str:
    """The reduced form of an integer."""
    if -(10**DIGITS_MAX) < value < 10**DIGITS_MAX:
        text = str(value)
        sign, digits = ("-", text[1:]) if value < 0 else ("", text)
        return "0" if value == 0 else _reduced(sign, digits, 0)
    if value.bit_length() > _BITS_MAX:
        raise Misfit("out_of_range", _RANGE)
    return dec_of_decimal(Decimal(value))


def dec_of_decimal(value: Decimal) -> str:
    """The reduced form of a Decimal; NaN and infinities are refused."""
    if not value.is_finite():
        raise Misfit("not_finite", "finite decimal")
    sign, parts, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a finite Decimal has a number as its exponent"
    digits = "".join(map(str, parts)).lstrip("0")
    return _reduced("-" if sign else "", digits, exponent) if digits else "0"


def is_reduced(text: str) -> bool:
    """True when the text is already the one form of its number."""
    try:
        return dec_of_text(text) == text
    except Misfit:
        return False


_RANGE = f"at most {DIGITS_MAX} digits, exponent {EXPONENT_MIN} to {EXPONENT_MAX}"


def _exponent(text: str | None) -> int:
    if text is None:
        return 0
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > 9:
        # Far out of range for every coefficient that a text can hold; and never a long int().
        raise Misfit("out_of_range", _RANGE)
    return int(f"-{digits}" if text.startswith("-") else digits) if digits else 0


def _reduced(sign: str, digits: str, exponent: int) -> str:
    short = digits.rstrip("0")
    exponent += len(digits) - len(short)
    n = len(short)
    if n > DIGITS_MAX or not EXPONENT_MIN <= exponent <= EXPONENT_MAX:
        raise Misfit("out_of_range", _RANGE)
    if exponent > 0:
        if n + exponent <= DIGITS_MAX:
            return sign + short + "0" * exponent
        return f"{sign}{short}E{exponent}"
    if exponent == 0:
        return sign + short
    if exponent < -DIGITS_MAX:
        return f"{sign}{short}E{exponent}"
    if n > -exponent:
        return f"{sign}{short[:exponent]}.{short[exponent:]}"
    return f"{sign}0.{'0' * (-exponent - n)}{short}"
