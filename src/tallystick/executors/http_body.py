"""The body of an answer: decoded on the way, and bounded before memory is taken.

Three bounds hold at every step: bytes from the wire, bytes decoded, and the ratio of the two.
A body up to 64 KiB is let through whatever its ratio, since a short text of one letter is no bomb.
An encoding that we do not know is passed on as it came, with its header.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from tallystick.errors import Rejected, TooLarge
from tallystick.executors.base import INLINE_BYTES_MAX

RATIO_MAX: Final = 100
_GZIP: Final = 16 + zlib.MAX_WBITS
_ENCODINGS: Final = frozenset(("gzip", "x-gzip", "deflate"))


class Body:
    """Collects an answer's body; refuses with `http.too_large` or `http.bad_encoding`."""

    def __init__(self, encoding: str, bytes_max: int) -> None:
        self._encoding = encoding.strip().lower()
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._engine: Any = None  # zlib does not name the type of its decompressor
        self._begun = b""
        self._read = 0
        self._size = 0

    @property
    def decoded(self) -> bool:
        """True when the body is not what came over the wire."""
        return self._encoding in _ENCODINGS

    def feed(self, data: bytes) -> None:
        """Take the next bytes from the wire."""
        self._read += len(data)
        if self._read > self._bytes_max:
            raise self._too_large()
        if self.decoded:
            self._inflate(data)
        else:
            self._keep(data)

    def end(self) -> bytes:
        """The whole body; refuses one whose encoding was cut short."""
        if self._begun or (self._engine is not None and not self._engine.eof):
            raise Rejected("the encoded body ends in the middle", code="http.bad_encoding")
        return b"".join(self._parts)

    def _inflate(self, data: bytes) -> None:
        data, self._begun = self._begun + data, b""
        if self._engine is None and len(data) < 2:
            self._begun = data  # one byte does not say how the rest is wrapped
            return
        while data:
            if self._engine is None or self._engine.eof:
                # A second member may follow the first; its bytes count like the others.
                self._engine = zlib.decompressobj(self._window(data))
            try:
                out: bytes = self._engine.decompress(data, self._room() + 1)
            except zlib.error as why:
                raise Rejected(
                    f"the body is not {self._encoding}", code="http.bad_encoding"
                ) from why
            self._keep(out)
            data = self._engine.unused_data

    def _window(self, data: bytes) -> int:
        if self._encoding != "deflate":
            return _GZIP
        # Some servers say deflate and leave out the two bytes of zlib, which a sum tells.
        wrapped = len(data) < 2 or (data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0)
        return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS

    def _room(self) -> int:
        most = min(self._bytes_max, max(INLINE_BYTES_MAX, RATIO_MAX * self._read))
        return most - self._size

    def _keep(self, data: bytes) -> None:
        if len(data) > (self._room() if self.decoded else self._bytes_max - self._size):
            raise self._too_large()
        self._parts.append(data)
        self._size += len(data)

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"the answer is over {self._bytes_max} bytes, or {RATIO_MAX} times its encoded size",
            code="http.too_large",
            hint="ask for less, or raise max_bytes of the executor",
        )
