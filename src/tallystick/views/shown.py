"""How canonical values and records are shown as JSON.

A digest is `sha256:<hex>`, a document is the value inside it, other bytes are base64.
A value that is too large for a page is named instead of shown; an export shows it whole.
Numbers inside documents follow the sugar lens: text where a reader of JSON might round them.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Any, Final

from tallystick.errors import NotCanonical, SchemaMismatch, TallyError
from tallystick.model.catalogue import Workflow
from tallystick.model.records import IdemKey, Record
from tallystick.values import canon
from tallystick.values.schema import Schema
from tallystick.values.schema.jsontext import parse_json
from tallystick.values.schema.leaves import EXACT_MAX

SHOWN_MAX: Final = 16 * 1024
HEAD_MAX: Final = 200
UNKEYED: Final = "-"

# Fields of records whose bytes are one canonical document.
_DOCUMENTS: Final = frozenset(
    {"value", "state", "params", "payload", "result", "ann", "init", "key"}
)
_OCTETS: Final = frozenset({"entropy", "public_key"})


def json_of(value: Any) -> Any:
    """A decoded value as JSON, without its schema."""
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return value if -EXACT_MAX <= value <= EXACT_MAX else str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): json_of(part) for key, part in value.items()}
    return [json_of(part) for part in value]


def document(data: bytes, schema: Schema | None = None, most: int | None = SHOWN_MAX) -> Any:
    """A canonical document as JSON; one over `most` bytes is named, with how it begins.

    Bytes that are no document, as in a rejected receipt, are shown as `{"$bytes": base64}`.
    """
    try:
        shown = _rendered(data, schema)
    except NotCanonical:
        return {"$bytes": b64encode(data if most is None else data[:most]).decode("ascii")}
    if most is None or len(data) <= most:
        return shown
    begins = json.dumps(shown, ensure_ascii=False)[:HEAD_MAX]
    return {"$blob": canon.hash_of(data), "bytes": len(data), "head": begins}


def _rendered(data: bytes, schema: Schema | None) -> Any:
    if schema is not None:
        try:
            return schema.render(schema.plain(data))
        except SchemaMismatch:
            pass  # of an older version than the schema that is active now
    return json_of(canon.decode(data))


# ---- keys -----------------------------------------------------------------------------------


def key_json(key: bytes) -> Any:
    """A cell's key as JSON; null for the one cell of an unkeyed workflow."""
    return json_of(canon.decode(key)) if key else None


def key_text(key: bytes) -> str:
    """A cell's key as it stands in a path or on a command line; `key_bytes` reads it back."""
    if not key:
        return UNKEYED
    shown = key_json(key)
    return shown if isinstance(shown, str) else json.dumps(shown, separators=(",", ":"))


def key_bytes(workflow: Workflow, text: str) -> bytes:
    """The key that a text means for a workflow: the text itself where it fits, else as JSON.

    Refuses with SchemaMismatch; the text for an unkeyed workflow is `-` or empty.
    """
    if workflow.key is None:
        if text in (UNKEYED, ""):
            return b""
        hint = {"path": "", "expected": "no key", "got": text[:64]}
        message = f"{workflow.name} has no key"
        raise SchemaMismatch(message, schema=workflow.name, errors=[hint])
    try:
        return workflow.key.admit(text, "sugar").bytes
    except SchemaMismatch as why:
        try:
            return workflow.key.admit(parse_json(text), "sugar").bytes
        except TallyError:
            raise why from None


def key_guesses(text: str) -> list[bytes]:
    """The keys that a text may mean where no schema says how keys are spelled any more."""
    values: list[Any] = [text]
    with suppress(TallyError):
        values.append(parse_json(text))
    with suppress(ValueError):
        values.append(b64decode(text, validate=True))
    return [canon.encode(value) for value in values] + [b""] * (text in (UNKEYED, ""))


# ---- records --------------------------------------------------------------------------------


def record_json(record: Record, most: int | None = SHOWN_MAX) -> dict[str, Any]:
    """A record as JSON: its type name, then each field that is not empty."""
    return {"record": type(record).__name__, **_fields(record, most)}


def _fields(record: Any, most: int | None) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in zip(record._fields, record, strict=True):
        if value is not None:
            shown[name.rstrip("_")] = _field(name, value, most)
    return shown


def _field(name: str, value: Any, most: int | None) -> Any:
    if isinstance(value, IdemKey):
        return {"key": _words(value.key), "digest": canon.text_of(value.digest)}
    if isinstance(value, bytes):
        return _bytes(name, value, most)
    if hasattr(value, "_fields"):
        return _fields(value, most)
    if isinstance(value, tuple):
        return [_field("", part, most) for part in value]
    # Times are nanoseconds and stay numbers; only what a document holds follows the lens.
    return value if isinstance(value, int | str) else json_of(value)


def _bytes(name: str, value: bytes, most: int | None) -> Any:
    if name in _DOCUMENTS:
        return document(value, most=most) if value else None  # an empty key is no key
    if name in _OCTETS:
        return value.hex()
    if len(value) == 32 and name != "idempotency_key":
        return canon.text_of(value)
    return _words(value)


def _words(value: bytes) -> str:
    """Bytes that a caller or a module chose: as text where they are text."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return b64encode(value).decode("ascii")
