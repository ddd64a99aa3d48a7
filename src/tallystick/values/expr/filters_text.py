"""Filters over text and numbers, and their codings.

Each pays for its result before it makes it; a text that grows is paid for at its full length.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tallystick.values.expr.access import attribute_or_fault, items_of
from tallystick.values.expr.fault import RANGE, TYPE, fault
from tallystick.values.expr.operate import (
    fit,
    is_int,
    is_number,
    json_of,
    keys_of,
    kind_of,
    text_of,
    truth,
)
from tallystick.values.expr.run import DEPTH_MAX, Run, Undefined, text_size
from tallystick.values.expr.signature import table

_WORDS = re.compile(r"([-\s({\[<]+)")
_QUOTES = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_PRECISION_MAX = 15


def _text(value: Any, name: str) -> str:
    if type(value) is not str:
        raise fault(TYPE, f"{name} of {kind_of(value)}")
    return value


def _subject(run: Run, value: Any) -> str:
    """Case filters take any value by its text, as Jinja's do; growing case is paid threefold."""
    text = text_of(run, value)
    run.charge(3 * text_size(text))
    return text


def _default(_run: Run, value: Any, other: Any = "", always: Any = False) -> Any:
    if type(value) is Undefined or (truth(always) and not truth(value)):
        return other
    return value


def _int(_run: Run, value: Any, other: Any = 0, base: Any = 10) -> Any:
    if not is_int(base) or not (base == 0 or 2 <= base <= 36):
        raise fault(TYPE, "the base of int is not 0 or 2 to 36")
    if is_number(value):
        return fit(int(value))
    if type(value) is not str:
        return other
    text = value.strip()
    if len(text) > 100:
        raise fault(RANGE, "a text is too long to be a number")
    try:
        return fit(int(text, base))
    except ValueError:
        return _int_of_float(text, other)


def _int_of_float(text: str, other: Any) -> Any:
    try:
        number = float(text)
    except ValueError:
        return other
    return fit(int(number)) if math.isfinite(number) else other


def _float(_run: Run, value: Any, other: Any = 0.0) -> Any:
    if is_number(value):
        return float(value)
    if type(value) is not str:
        return other
    if len(value) > 400:
        raise fault(RANGE, "a text is too long to be a number")
    try:
        return fit(float(value))
    except ValueError:
        return other


def _title(run: Run, value: Any) -> str:
    words = _WORDS.split(_subject(run, value))
    return "".join(word[0].upper() + word[1:].lower() for word in words if word)


def _trim(run: Run, value: Any, chars: Any = None) -> str:
    if chars is not None:
        _text(chars, "trim characters")
    return _subject(run, value).strip(chars)


def replace(run: Run, value: Any, old: Any, new: Any, count: Any = None) -> str:
    """Replaced text; its length is known and paid for before it is made."""
    text, old, new = _text(value, "replace"), _text(old, "replace"), _text(new, "replace")
    if count is not None and not is_int(count):
        raise fault(TYPE, f"a count is {kind_of(count)}")
    hits = text.count(old)
    if count is not None and count >= 0:
        hits = min(hits, int(count))
    run.charge(text_size(text) + hits * text_size(new))
    return text.replace(old, new, -1 if count is None else int(count))


def split(run: Run, value: Any, by: Any = None, most: Any = -1) -> list[str]:
    """The parts of a text, at blanks or at a separator."""
    text = _text(value, "split")
    if by is not None and _text(by, "split") == "":
        raise fault(TYPE, "split by an empty text")
    if not is_int(most):
        raise fault(TYPE, f"a count is {kind_of(most)}")
    parts = text.count(by) if by is not None else len(text) // 2
    run.charge(text_size(text) + 8 * parts + 8)
    return text.split(by, int(most))


def _round(_run: Run, value: Any, precision: Any = 0, method: Any = "common") -> Any:
    if not is_number(value) or not is_int(precision) or abs(precision) > _PRECISION_MAX:
        raise fault(TYPE, "round takes a number and a precision of at most 15")
    if method == "common":
        return fit(round(value, int(precision)))
    if method not in ("ceil", "floor"):
        raise fault(TYPE, "round knows common, ceil and floor")
    work = math.ceil if method == "ceil" else math.floor
    scale = 10.0 ** int(precision)
    try:
        return fit(work(fit(value * scale)) / scale)
    except OverflowError:
        raise fault(RANGE, "a float is not finite") from None


def _abs(_run: Run, value: Any) -> Any:
    if not is_number(value):
        raise fault(TYPE, f"abs of {kind_of(value)}")
    return fit(abs(value))


# ---- codings --------------------------------------------------------------------------------


def _tojson(run: Run, value: Any, indent: Any = None) -> str:
    if indent is not None and not (is_int(indent) and 0 <= indent <= 8):
        raise fault(TYPE, "the indent of tojson is not 0 to 8")
    return json_of(run, value, None if indent is None else int(indent))


def _fromjson(run: Run, value: Any) -> Any:
    text = _text(value, "fromjson")
    run.charge(4 * text_size(text))
    depth = 0
    for c in _QUOTES.sub("", text):
        depth += (c in "[{") - (c in "]}")
        if depth >= DEPTH_MAX:
            raise fault(TYPE, f"JSON is nested over {DEPTH_MAX} levels")
    try:
        found = json.loads(
            text,
            object_pairs_hook=_unique_pairs,
            parse_int=_json_int,
            parse_float=lambda number: fit(float(number)),
            parse_constant=_json_constant,
        )
        # A lone surrogate can be written in JSON and has no bytes.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except ValueError:
        raise fault(TYPE, "the text is not JSON") from None
    run.charge_deep(found)
    return found


def _json_constant(_name: str) -> Any:
    raise fault(TYPE, "the text is not JSON")


def _json_int(text: str) -> int:
    if len(text) > 20:
        raise fault(RANGE, "an integer is over 64 bits")
    number: int = fit(int(text))
    return number


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise fault(TYPE, "a key stands twice in the JSON")
    return found


def _octets(value: Any, name: str) -> bytes:
    if type(value) is bytes:
        return value
    return _text(value, name).encode("utf-8")


def _b64encode(run: Run, value: Any) -> str:
    raw = _octets(value, "b64encode")
    run.charge(4 * (len(raw) // 3 + 1))
    return binascii.b2a_base64(raw, newline=False).decode("ascii")


def _b64decode(run: Run, value: Any) -> str:
    text = _text(value, "b64decode")
    run.charge(text_size(text))
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True).decode("utf-8")
    except (binascii.Error, UnicodeError):
        raise fault(TYPE, "the text is not base64 of UTF-8") from None


def _quote(run: Run, value: Any, safe: bytes) -> str:
    text = text_of(run, value)
    run.charge(3 * text_size(text))
    keep = _UNRESERVED.union(safe)
    return "".join(chr(b) if b in keep else f"%{b:02X}" for b in text.encode("utf-8"))


def _urlencode(run: Run, value: Any) -> str:
    """A text is quoted for a path; a map or a list of pairs becomes a query."""
    if type(value) is str or not (type(value) is list or isinstance(value, Mapping)):
        return _quote(run, value, b"/")
    pairs = value
    if isinstance(value, Mapping):
        pairs = [[key, value[key]] for key in keys_of(value)]
    run.spend(len(pairs))
    out: list[str] = []
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2:
            raise fault(TYPE, "urlencode takes a text, a map or a list of pairs")
        quoted = [_quote(run, side, b"").replace("%20", "+") for side in pair]
        out.append("=".join(quoted))
    return "&".join(out)


def _sha256(_run: Run, value: Any) -> str:
    return sha256(_octets(value, "sha256")).hexdigest()


def join(run: Run, value: Any, by: Any = "", attribute_of: Any = None) -> str:
    """The texts of items with a separator between; paid for before they are joined."""
    gap = text_of(run, by)
    texts: list[str] = []
    for item in items_of(run, value):
        part = item if attribute_of is None else attribute_or_fault(run, item, attribute_of)
        text = text_of(run, part)
        run.charge(text_size(text) + text_size(gap))
        texts.append(text)
    return gap.join(texts)


TEXT_FILTERS = table(
    default=(_default, "default_value boolean", 0, True, ("",)),
    d=(_default, "default_value boolean", 0, True, ("",)),
    int=(_int, "default base", 0, False, (0,)),
    float=(_float, "default"),
    string=(text_of,),
    bool=(lambda _run, value: truth(value),),
    lower=(lambda run, value: _subject(run, value).lower(),),
    upper=(lambda run, value: _subject(run, value).upper(),),
    title=(_title,),
    trim=(_trim, "chars"),
    join=(join, "d attribute", 0, False, ("",)),
    replace=(replace, "old new count", 2),
    split=(split, "sep maxsplit", 0, False, (None,)),
    round=(_round, "precision method", 0, False, (0,)),
    abs=(_abs,),
    tojson=(_tojson, "indent"),
    fromjson=(_fromjson,),
    b64encode=(_b64encode,),
    b64decode=(_b64decode,),
    urlencode=(_urlencode,),
    sha256=(_sha256,),
)
