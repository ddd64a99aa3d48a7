"""What a node and its WASM workers say to each other: a document and bytes, each with its length.

The document is canonical and small; the bytes are code, an input or an answer, and are not read
here.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from tallystick.errors import NotCanonical
from tallystick.values import canon

_HEAD: Final = struct.Struct(">II")
SAID_MAX: Final = 64 * 1024
# An answer stands in the memory of a module, and that can be named by 32 bits.
BODY_MAX: Final = 2**32 - 1

Waiting = Callable[[], None]
"""Called each time nothing came for a while; raises when enough has been waited."""


class WireError(Exception):
    """The other side is gone, or says what nobody can read."""


def put(wire: socket.socket, said: dict[str, Any], body: bytes, waiting: Waiting) -> None:
    """Send one message whole."""
    document = canon.encode(said)
    left = memoryview(_HEAD.pack(len(document), len(body)) + document + body)
    while left:
        try:
            left = left[wire.send(left) :]
        except TimeoutError:
            waiting()
        except OSError as why:
            raise WireError(str(why)) from why


def take(wire: socket.socket, waiting: Waiting) -> tuple[dict[str, Any], bytes]:
    """One message whole; raises `WireError` when the other side ends before."""
    said, size = _HEAD.unpack(_take(wire, _HEAD.size, waiting))
    if said > SAID_MAX or size > BODY_MAX:
        raise WireError("a message that is too large")
    try:
        document = canon.decode(_take(wire, said, waiting))
    except NotCanonical as why:
        raise WireError(why.message) from why
    if type(document) is not dict:
        raise WireError("a message that is no map")
    return document, _take(wire, size, waiting)


def _take(wire: socket.socket, size: int, waiting: Waiting) -> bytes:
    parts: list[bytes] = []
    while size:
        try:
            part = wire.recv(min(size, 1 << 20))
        except TimeoutError:
            waiting()
            continue
        except OSError as why:
            raise WireError(str(why)) from why
        if not part:
            raise WireError("the other side is gone")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
