"""Documents of our own structures: they hold many values, and only each of those is bounded.

A frame in which a thousand receipts settle, the mail of a cell that waits, the levels of all flows:
what is legal one by one stays readable together.
Nothing that a stranger sends is read here.
"""

from __future__ import annotations

from typing import Any

from tallystick.errors import NotCanonical
from tallystick.values import canon


def encode(value: Any) -> bytes:
    """The canonical document of a value, whatever its size."""
    return canon.PREFIX + canon.encode_item(value)


def decode(data: bytes) -> Any:
    """The value of a canonical document of any size; as strict as `canon.decode`."""
    if len(data) <= canon.SIZE_MAX:
        return canon.decode(data)
    start = len(canon.PREFIX)
    if data[:start] != canon.PREFIX:
        raise NotCanonical("document does not begin with d9 d9 f7", code="cbor.prefix", offset=0)
    reader = canon.Reader(data, start)
    value = reader.item(0)
    if reader.pos != len(data):
        message = "bytes after the document's one item"
        raise NotCanonical(message, code="cbor.trailing", offset=reader.pos)
    return value
