"""Canonical bytes: RFC 8949 deterministic CBOR, narrowed, behind the self-describe tag.

Theory of operation.
A *document* is `d9 d9 f7` and exactly one data item.
A value has one document, and a document has one value: `encode(decode(b)) == b` for every b that
`decode` accepts, and `decode` accepts nothing else.
Map keys are ordered bytewise by their encoded form, which is not the length-first order of older
profiles.
There is no lax decoder: what is not canonical is refused with a code and the byte offset.

Depth and size caps are constants of the profile, not settings, because accept and reject must
agree at replay on every machine.

The file stays inside mypyc's subset: the compiled codec is built from this very source.
"""
# tidy: encoder, decoder and hashes in one file, because one file is what gets compiled

from __future__ import annotations

import math
import struct
from hashlib import sha256
from itertools import repeat
from typing import Any, Final

from tallystick.errors import NotCanonical, SchemaMismatch

PREFIX: Final[bytes] = b"\xd9\xd9\xf7"
DEPTH_MAX: Final = 64
SIZE_MAX: Final = 16 * 1024 * 1024
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**64 - 1
FLOAT_INTEGRAL_MAX: Final = 2**53

# Short keys recur in every record; their encodings are kept, and so is the order of whole maps.
# The memories are bounded and forget all when full: a stranger's keys can neither grow them nor
# keep ours out for good.
_KEYS: dict[str, bytes] = {}
_KEYS_MAX: Final = 4096
_KEY_BYTES_MAX: Final = 65
_NUMBERS_MAX: Final = 1024
_TEXTS: dict[bytes, str] = {}
_SHAPES: dict[tuple[str, ...], list[tuple[bytes, str]]] = {}
_SHAPES_MAX: Final = 1024
_SHAPE_KEYS_MAX: Final = 32

# Heads of every major type with an argument under 256: nearly all there are.
_HEADS: Final = [
    bytes((major << 5 | n,)) if n < 24 else bytes((major << 5 | 24, n))
    for major in range(8)
    for n in range(256)
]
_TEXT_HEADS: Final = _HEADS[3 * 256 : 4 * 256]
_BYTES_HEADS: Final = _HEADS[2 * 256 : 3 * 256]


class _Lengths(dict[int, bytes]):
    """Heads of byte strings by their length; bounded, because a length is a stranger's choice."""

    def __missing__(self, length: int) -> bytes:
        made = head(2, length)
        if len(self) < _KEYS_MAX:
            self[length] = made
        return made


class _Names(dict[str, bytes]):
    """Encoded texts that recur: names of workflows, schemas, effects, statuses."""

    def __missing__(self, name: str) -> bytes:
        made = put_text(name)
        if len(self) < _KEYS_MAX:
            self[name] = made
        return made


class _Numbers(dict[int, bytes]):
    """Encoded numbers: a place in history is written several times while it is new."""

    def __missing__(self, number: int) -> bytes:
        if len(self) >= _NUMBERS_MAX:
            self.clear()  # the old ones do not come again
        made = self[number] = put_int(number)
        if number > 0 and len(made) in LOTS and number - 1 in self:
            # What comes one after the other, as places do, is made in lots of one width.
            first, pack, end = LOTS[len(made)]
            lot = range(number, min(number + 64, end))
            self.update(zip(lot, map(pack, repeat(first), lot), strict=False))
        return made


# For prepared encoders, which join the pieces themselves without a call for each.
OCTETS: Final[dict[int, bytes]] = _Lengths()
NAMES: Final[dict[str, bytes]] = _Names()
NUMBERS: Final[dict[int, bytes]] = _Numbers()
_HEAD16: Final = struct.Struct(">BH")
_HEAD32: Final = struct.Struct(">BI")
_HEAD64: Final = struct.Struct(">BQ")
LOTS: Final = {3: (0x19, _HEAD16.pack, 0x10000), 5: (0x1A, _HEAD32.pack, 0x100000000)}
_F16: Final = struct.Struct(">e")
_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")


# ---- encoding -------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """The canonical document of a value; refuses what the profile cannot say."""
    out: list[bytes] = [PREFIX]
    _put(value, out, 0)
    data = b"".join(out)
    if len(data) > SIZE_MAX:
        raise _refused("value.too_large", f"document of {len(data)} bytes is over {SIZE_MAX}")
    return data


def encode_item(value: Any) -> bytes:
    """The encoded item of a value without the prefix: a piece for a prepared encoder."""
    out: list[bytes] = []
    _put(value, out, 0)
    return b"".join(out)


def head(major: int, n: int) -> bytes:
    """The shortest head of a major type with argument n."""
    if n < 0x100:
        return _HEADS[major << 8 | n]
    first = major << 5
    if n < 0x10000:
        return bytes((first | 25, n >> 8, n & 0xFF))
    if n < 0x100000000:
        return _HEAD32.pack(first | 26, n)
    return _HEAD64.pack(first | 27, n)


def put_text(value: str) -> bytes:
    """An encoded text item."""
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise _refused("value.bad_format", "text holds a lone surrogate") from None
    n = len(raw)
    return (_TEXT_HEADS[n] if n < 0x100 else head(3, n)) + raw


def put_bytes(value: bytes) -> bytes:
    """An encoded byte string item."""
    n = len(value)
    return (_BYTES_HEADS[n] if n < 0x100 else head(2, n)) + value


def put_int(value: int) -> bytes:
    """An encoded integer item."""
    if value >= 0:
        if value < 0x100:
            return _HEADS[value]
        if value < 0x10000:
            return _HEAD16.pack(0x19, value)
        if value < 0x100000000:
            return _HEAD32.pack(0x1A, value)
        if value > INT_MAX:
            raise _refused("value.out_of_range", "integer over 2^64-1")
        return _HEAD64.pack(0x1B, value)
    if value < INT_MIN:
        raise _refused("value.out_of_range", "integer under -2^63")
    return head(1, -1 - value)


def put_key(key: str) -> bytes:
    """An encoded text key; short ones are remembered."""
    known = _KEYS.get(key)
    if known is not None:
        return known
    made = put_text(key)
    if len(made) <= _KEY_BYTES_MAX:
        if len(_KEYS) >= _KEYS_MAX:
            _KEYS.clear()
        _KEYS[key] = made
    return made


def put_float(value: float) -> bytes:
    """An encoded float item: shortest exact form; integral ones within 2^53 are integers."""
    if not math.isfinite(value):
        raise _refused("value.not_finite", "NaN and infinities have no canonical form")
    if -FLOAT_INTEGRAL_MAX <= value <= FLOAT_INTEGRAL_MAX and value == int(value):
        return put_int(int(value))
    try:
        short = _F16.pack(value)
        if _F16.unpack(short)[0] == value:
            return b"\xf9" + short
    except OverflowError:
        pass
    try:
        middle = _F32.pack(value)
        if _F32.unpack(middle)[0] == value:
            return b"\xfa" + middle
    except OverflowError:
        pass
    return b"\xfb" + _F64.pack(value)


def _put(value: Any, out: list[bytes], depth: int) -> None:
    kind = type(value)
    if kind is str:
        out.append(put_text(value))
    elif kind is int:
        out.append(put_int(value))
    elif kind is bytes:
        out.append(head(2, len(value)))
        out.append(value)
    elif kind is dict:
        _put_map(value, out, depth + 1)
    elif value is None:
        out.append(b"\xf6")
    elif kind is bool:
        out.append(b"\xf5" if value else b"\xf4")
    elif kind is list or kind is tuple:
        _put_array(value, out, depth + 1)
    elif kind is float:
        out.append(put_float(value))
    else:
        raise _refused("value.wrong_type", f"{kind.__name__} has no canonical form")


def _put_array(items: Any, out: list[bytes], depth: int) -> None:
    if depth > DEPTH_MAX:
        raise _refused("value.too_deep", f"nesting over {DEPTH_MAX}")
    out.append(head(4, len(items)))
    for item in items:
        _put(item, out, depth)


def _put_map(items: dict[Any, Any], out: list[bytes], depth: int) -> None:
    if depth > DEPTH_MAX:
        raise _refused("value.too_deep", f"nesting over {DEPTH_MAX}")
    out.append(head(5, len(items)))
    for encoded, key in _ordered(items):
        value = items[key]
        out.append(encoded)
        # The commonest kinds are written here: the call would cost more than they do.
        kind = type(value)
        if kind is str:
            out.append(put_text(value))
        elif kind is int:
            out.append(put_int(value))
        else:
            _put(value, out, depth)


def _ordered(items: dict[Any, Any]) -> list[tuple[bytes, Any]]:
    """The encoded keys of a map in canonical order, each with its key."""
    for key in items:
        # The memory would take a key that only equals a known text (a subclass of str) for the
        # text itself, and what is accepted must not depend on what was seen before.
        if type(key) is not str:
            return _sorted(items)
    shape = tuple(items)
    known = _SHAPES.get(shape)
    if known is not None:
        return known
    pairs = _sorted(items)
    if len(pairs) <= _SHAPE_KEYS_MAX and all(len(pair[0]) <= _KEY_BYTES_MAX for pair in pairs):
        if len(_SHAPES) >= _SHAPES_MAX:
            _SHAPES.clear()
        _SHAPES[shape] = pairs
    return pairs


def _sorted(items: dict[Any, Any]) -> list[tuple[bytes, Any]]:
    pairs: list[tuple[bytes, Any]] = []
    for key in items:
        kind = type(key)
        if kind is str:
            pairs.append((put_key(key), key))
        elif kind is int:
            pairs.append((put_int(key), key))
        else:
            raise _refused("value.wrong_type", f"map key of type {kind.__name__}")
    # Encoded keys are distinct, so the comparison never reaches the second element.
    pairs.sort()
    return pairs


def _refused(code: str, message: str) -> SchemaMismatch:
    return SchemaMismatch(message, code=code)


# ---- decoding -------------------------------------------------------------------------------


def decode(data: bytes) -> Any:
    """The value of a canonical document; anything else is refused with code and offset."""
    if len(data) > SIZE_MAX:
        raise _bad("cbor.size", f"document of {len(data)} bytes is over {SIZE_MAX}", SIZE_MAX)
    if data[:3] != PREFIX:
        raise _bad("cbor.prefix", "document does not begin with d9 d9 f7", 0)
    reader = Reader(data, 3)
    value = reader.item(0)
    if reader.pos != len(data):
        raise _bad("cbor.trailing", "bytes after the document's one item", reader.pos)
    return value


class Reader:
    """A strict cursor over canonical items."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int) -> None:
        self.data: bytes = data
        self.pos: int = pos
        self.end: int = len(data)

    def item(self, depth: int) -> Any:
        """Read one item and move behind it."""
        # tidy: the commonest kinds are read in place; a method call costs more than they do
        start = self.pos
        if start >= self.end:
            raise _bad("cbor.truncated", "an item is missing", start)
        first = self.data[start]
        n = first & 31
        if n < 24:
            self.pos = start + 1
        elif first < 0xE0:
            n = self.argument(n, start)
        major = first >> 5
        if major == 0:
            return n
        if major == 3:
            begin = self.pos
            stop = begin + n
            if stop > self.end:
                raise _bad("cbor.truncated", "a text is cut off", start)
            self.pos = stop
            try:
                return self.data[begin:stop].decode()
            except UnicodeDecodeError:
                raise _bad("cbor.utf8", "text is not valid UTF-8", start) from None
        if major == 2:
            begin = self.pos
            stop = begin + n
            if stop > self.end:
                raise _bad("cbor.truncated", "a string is cut off", start)
            self.pos = stop
            return self.data[begin:stop]
        if major == 7:
            return self.simple(first, start)
        if major == 5:
            return self.mapping(n, start, depth + 1)
        if major == 4:
            return self.array(n, start, depth + 1)
        if major == 1:
            if n > 0x7FFFFFFFFFFFFFFF:
                raise _bad("cbor.int_range", "integer under -2^63", start)
            return -1 - n
        raise _bad("cbor.tag", "tags are not used after the prefix", start)

    def argument(self, info: int, start: int) -> int:
        """The argument of a long head; refuses indefinite and non-minimal ones."""
        if info == 31:
            raise _bad("cbor.indefinite", "indefinite length", start)
        if info > 27:
            raise _bad("cbor.not_minimal", "reserved head", start)
        if info == 24 and start + 1 < self.end:  # by far the commonest
            n = self.data[start + 1]
            if n < 24:
                raise _bad("cbor.not_minimal", "the head is longer than needed", start)
            self.pos = start + 2
            return n
        width = 1 << (info - 24)
        stop = start + 1 + width
        if stop > self.end:
            raise _bad("cbor.truncated", "a head is cut off", start)
        n = int.from_bytes(self.data[start + 1 : stop], "big")
        floor = 24 if width == 1 else 1 << (width * 4)
        if n < floor:
            raise _bad("cbor.not_minimal", "the head is longer than needed", start)
        self.pos = stop
        return n

    def array(self, n: int, start: int, depth: int) -> list[Any]:
        """An array of n items."""
        if depth > DEPTH_MAX:
            raise _bad("cbor.depth", f"nesting over {DEPTH_MAX}", start)
        if n > self.end - self.pos:
            raise _bad("cbor.truncated", "an array is cut off", start)
        return [self.item(depth) for _ in range(n)]

    def mapping(self, n: int, start: int, depth: int) -> dict[Any, Any]:
        """A map of n pairs with strictly increasing encoded keys."""
        if depth > DEPTH_MAX:
            raise _bad("cbor.depth", f"nesting over {DEPTH_MAX}", start)
        if n > (self.end - self.pos) >> 1:
            raise _bad("cbor.truncated", "a map is cut off", start)
        data = self.data
        result: dict[Any, Any] = {}
        before = b""
        for _ in range(n):
            at = self.pos
            first = data[at] if at < self.end else 0xFF
            # A short text that was a key before needs no decoding; a cut-off one is never known.
            encoded = data[at : at + first - 0x5F] if 0x60 <= first < 0x78 else b""
            key: Any = _TEXTS.get(encoded)
            if key is None:
                key = self.key(at, depth)
                encoded = data[at : self.pos]
            else:
                self.pos = at + first - 0x5F
            if encoded <= before:
                if encoded == before:
                    raise _bad("cbor.key_duplicate", "a map key stands twice", at)
                raise _bad("cbor.key_order", "map keys are not in bytewise order", at)
            before = encoded
            result[key] = self.item(depth)
        return result

    def key(self, at: int, depth: int) -> Any:
        """A map key: an integer or a text; short texts are remembered."""
        if at >= self.end:
            raise _bad("cbor.truncated", "a map is cut off", at)
        major = self.data[at] >> 5
        if major > 1 and major != 3:
            raise _bad("cbor.key_type", "map keys are integers or text", at)
        key = self.item(depth)
        if major == 3 and self.pos - at <= 24:
            if len(_TEXTS) >= _KEYS_MAX:
                _TEXTS.clear()
            _TEXTS[self.data[at : self.pos]] = key
        return key

    def simple(self, first: int, start: int) -> Any:
        """false, true, null, or a float in its shortest exact form."""
        self.pos = start + 1
        if first == 0xF6:
            return None
        if first == 0xF5:
            return True
        if first == 0xF4:
            return False
        if first == 0xFF:
            raise _bad("cbor.indefinite", "a break without its beginning", start)
        width = 2 if first == 0xF9 else 4 if first == 0xFA else 8 if first == 0xFB else 0
        if width == 0:
            raise _bad("cbor.simple", "only false, true and null are used", start)
        stop = start + 1 + width
        if stop > self.end:
            raise _bad("cbor.truncated", "a float is cut off", start)
        raw = self.data[start + 1 : stop]
        form = _F16 if width == 2 else _F32 if width == 4 else _F64
        value: float = form.unpack(raw)[0]
        if not math.isfinite(value):
            raise _bad("cbor.float", "NaN and infinities are not used", start)
        if put_float(value) != self.data[start:stop]:
            raise _bad("cbor.float", "the float has a shorter form", start)
        self.pos = stop
        return value


def _bad(code: str, message: str, offset: int) -> NotCanonical:
    return NotCanonical(message, code=code, offset=offset)


# ---- hashes ---------------------------------------------------------------------------------


def digest_of(data: bytes) -> bytes:
    """The 32 raw bytes of sha256 over a document."""
    return sha256(data).digest()


def hash_of(data: bytes) -> str:
    """`sha256:<hex>` over a document."""
    return "sha256:" + sha256(data).hexdigest()


def digest(value: Any) -> bytes:
    """The 32 raw bytes of sha256 over a value's document."""
    return sha256(encode(value)).digest()


def hash(value: Any) -> str:  # noqa: A001 - the word of the design; used as canon.hash
    """`sha256:<hex>` over a value's document."""
    return "sha256:" + sha256(encode(value)).hexdigest()


def text_of(raw: bytes) -> str:
    """A raw digest as text."""
    return "sha256:" + raw.hex()


def raw_of(text: str) -> bytes:
    """A text hash as 32 raw bytes."""
    return bytes.fromhex(text[7:])


def tagged(type_name: str, fields: dict[str, Any]) -> bytes:
    """H(type, **fields): the digest of one of our own structures, separated by `$type`."""
    return sha256(PREFIX + encode_item({**fields, "$type": type_name})).digest()
