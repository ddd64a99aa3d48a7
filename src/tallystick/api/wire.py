"""Bodies: JSON or canonical CBOR, nothing else, measured before they are read.

JSON is read exactly (no repeated keys, no lost digit, no depth without end); CBOR must be
canonical.
A body is then fitted to the shape of its route, and a misfit names its path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from tallystick.api.refusals import WrongContent
from tallystick.errors import Rejected, SchemaMismatch, TallyError
from tallystick.values import canon
from tallystick.values.schema.jsontext import parse_json

M = TypeVar("M")

JSON: Final = b"application/json"
CBOR: Final = b"application/cbor"
BYTES: Final = b"application/octet-stream"
PROBLEM: Final = b"application/problem+json"
# Clients spell the one charset that JSON has in several ways, and mean the same.
_CHARSETS: Final = (b"", b";charset=utf-8", b"; charset=utf-8", b'; charset="utf-8"')
_JSON_TYPES: Final = frozenset(JSON + charset for charset in _CHARSETS)
_KEY: Final = re.compile(rb"[\x20-\x7e]{1,128}")
_PATH: Final = re.compile(r" - at `\$?(.*)`$")
_ENCODE: Final = msgspec.json.Encoder().encode


def check_type(content_type: bytes, *, raw: bool) -> None:
    """Refuse a body whose content type is not exactly one that the route reads."""
    kind = content_type.lower()
    if (kind == BYTES) if raw else (kind in _JSON_TYPES or is_cbor(kind)):
        return
    wanted = "application/octet-stream" if raw else "application/json or application/cbor"
    raise WrongContent(f"this route reads {wanted}", hint=f"send {wanted}")


def is_cbor(content_type: bytes) -> bool:
    """True for a body in CBOR; the case of a media type means nothing."""
    return content_type.lower() == CBOR


def document_of(body: bytes, content_type: bytes) -> Any:
    """The value of a body, read under the rules of its content type."""
    if is_cbor(content_type):
        return canon.decode(body)
    return parse_json(body)


def convert(value: Any, model: type[M]) -> M:
    """A value as one of our shapes; refuses unknown and misfitting fields by path."""
    try:
        return msgspec.convert(value, model)
    except msgspec.ValidationError as why:
        text = str(why)
        found = _PATH.search(text)
        path = "" if found is None else _pointer(found.group(1))
        finding = {
            "code": "value.mismatch",
            "path": path,
            "expected": _PATH.sub("", text),
            "got": "another shape",
        }
        raise SchemaMismatch(f"the body does not fit: {text}", errors=[finding]) from why


def _pointer(path: str) -> str:
    """The path of a finding as a JSON pointer."""
    return re.sub(r"\[(\d+|\.\.\.)\]", r"/\1", path.replace(".", "/"))


def idem_key_of(given: bytes) -> str:
    """An Idempotency-Key: 1 to 128 printable characters."""
    if not _KEY.fullmatch(given):
        raise Rejected(
            "an Idempotency-Key has 1 to 128 printable ASCII characters",
            code="ingress.bad_key",
            where={"path": "Idempotency-Key"},
        )
    return given.decode("ascii")


def encoded(value: Any, *, cbor: bool) -> tuple[bytes, bytes]:
    """An answer as bytes, with its content type."""
    if cbor:
        return canon.encode(value), CBOR
    return _ENCODE(value), JSON


def problem_of(error: TallyError) -> dict[str, Any]:
    """An error as RFC 9457 has it, with our stable code."""
    where: Mapping[str, Any] = error.where
    found: dict[str, Any] = {
        "type": f"urn:tallystick:error:{error.code}",
        "title": type(error).__name__,
        "status": error.status,
        "detail": error.message,
        "code": error.code,
    }
    if "path" in where:
        found["path"] = where["path"]
    if "blockers" in where:
        found["blockers"] = where["blockers"]
    if "retry_after_ms" in where:
        found["retry_after_ms"] = where["retry_after_ms"]
    if error.hint:
        found["hint"] = error.hint
    if where:
        found["where"] = dict(where)
    return found
