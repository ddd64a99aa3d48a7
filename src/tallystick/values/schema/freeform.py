"""Free-form data: the type `json`, in which playbooks keep what has no schema.

Any JSON: null, bool, integer, finite float, text, array, text-keyed map; nothing else.
An integral float within 2^53 is an integer, so `2.0` and `2` are one value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tallystick.values import canon
from tallystick.values.schema import leaves
from tallystick.values.schema.misfit import Misfit

Pieces = list[bytes]
Put = Callable[[Any, Pieces], Any]

NULL: Final = b"\xf6"
_head = canon.head


def put_boolean(value: Any, out: Pieces) -> Any:
    """A bool, and nothing that merely resembles one."""
    if value is True:
        out.append(b"\xf5")
    elif value is False:
        out.append(b"\xf4")
    else:
        raise Misfit("wrong_type")
    return value


def put_json_at(depth: int) -> Put:
    """The closure of a json position, `depth` containers down."""

    def put_json(value: Any, out: Pieces) -> Any:
        return _put_json(value, out, depth)

    return put_json


def _put_json(value: Any, out: Pieces, depth: int) -> Any:
    if isinstance(value, str):
        raw = value.encode()
        out.append(_head(3, len(raw)))
        out.append(raw)
        return str.__str__(value)
    if value is None:
        out.append(NULL)
        return None
    if value is True or value is False:
        return put_boolean(value, out)
    if isinstance(value, int):
        value = json_int(value)
        out.append(canon.put_int(value))
        return value
    if isinstance(value, float):
        out.append(canon.put_float(json_float(value)))
        return json_float(value)
    if depth >= canon.DEPTH_MAX and isinstance(value, (list, tuple, Mapping)):
        raise Misfit("too_deep")
    if isinstance(value, (list, tuple)):
        out.append(_head(4, len(value)))
        return [_put_json(item, out, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return _put_json_object(value, out, depth + 1)
    raise Misfit("wrong_type")


def _put_json_object(value: Mapping[Any, Any], out: Pieces, depth: int) -> Any:
    keyed: list[tuple[bytes, str]] = []
    for key in value:
        if not isinstance(key, str):
            raise Misfit("wrong_type")
        keyed.append((key.encode(), key))
    # Bytewise order of encoded text keys is the order of (length, bytes).
    keyed.sort(key=_by_encoding)
    out.append(_head(5, len(keyed)))
    result: dict[str, Any] = {}
    for raw, key in keyed:
        out.append(_head(3, len(raw)))
        out.append(raw)
        result[str.__str__(key)] = _put_json(value[key], out, depth)
    return result


def _by_encoding(entry: tuple[bytes, str]) -> tuple[int, bytes]:
    return len(entry[0]), entry[0]


def json_int(value: int) -> int:
    """An integer of json; one outside the range of canonical integers is refused."""
    if not canon.INT_MIN <= value <= canon.INT_MAX:
        raise Misfit("out_of_range", "integer within -2^63 to 2^64-1")
    return int.__pos__(value)


def json_float(value: float) -> float | int:
    """A number of json: finite, and an integer where it is integral within 2^53."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
        raise Misfit("not_finite", "finite number")
    if -canon.FLOAT_INTEGRAL_MAX <= value <= canon.FLOAT_INTEGRAL_MAX and value == int(value):
        return int(value)
    return float.__pos__(value)


def json_leaf(value: Any, depth: int) -> Any:
    """A scalar of json in its canonical form; a container as it is, if it may stand here."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return leaves.text(value)
    if isinstance(value, int):
        return json_int(value)
    if isinstance(value, float):
        return json_float(value)
    if not isinstance(value, (list, tuple, Mapping)):
        raise Misfit("wrong_type")
    if depth >= canon.DEPTH_MAX:
        raise Misfit("too_deep", f"nesting of at most {canon.DEPTH_MAX}")
    return value


def is_json(value: Any) -> bool:
    """True for a decoded value that holds only what json may."""
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and is_json(item) for key, item in value.items())
    if kind is list:
        return all(is_json(item) for item in value)
    return kind is not bytes
