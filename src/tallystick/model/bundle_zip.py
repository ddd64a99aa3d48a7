"""The container of a bundle: a zip that only one writer could have written.

Entries are stored, sorted by name in byte order, dated 1980-01-01, without extra fields, comments
or permissions: equal members give equal bytes on every machine (X-19).
The reader takes exactly what the writer writes, so nothing is ever inflated, no name can leave its
folder unseen, and two readers cannot disagree about what a file holds.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final, NoReturn

from tallystick.errors import BadDefinition, TooLarge

# The fields of APPNOTE 4.3.7, 4.3.12 and 4.3.16, little-endian.
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
_LOCAL_SIGN: Final = b"PK\x03\x04"
_CENTRAL_SIGN: Final = b"PK\x01\x02"
_END_SIGN: Final = b"PK\x05\x06"
_VERSION: Final = 20
_UTF8: Final = 0x0800
_STORED: Final = 0
_MIDNIGHT: Final = 0
_FIRST_DAY: Final = 1 << 5 | 1
ENTRIES_MAX: Final = 0xFFFF - 1
BYTES_MAX: Final = 0xFFFFFFFF - 1


def write_zip(members: Mapping[str, bytes], bytes_max: int = BYTES_MAX) -> bytes:
    """The one container of these members; refuses more than a plain zip can number."""
    if len(members) > ENTRIES_MAX:
        raise TooLarge(f"{len(members)} members, at most {ENTRIES_MAX}", code="bundle.too_large")
    parts: list[bytes] = []
    index: list[bytes] = []
    at = 0
    for raw, data in sorted((name.encode(), data) for name, data in members.items()):
        if at + len(data) > bytes_max:
            raise TooLarge(f"more than {bytes_max} bytes", code="bundle.too_large")
        shared = (_VERSION, _UTF8, _STORED, _MIDNIGHT, _FIRST_DAY)
        sizes = (zlib.crc32(data), len(data), len(data), len(raw), 0)
        header = _LOCAL.pack(_LOCAL_SIGN, *shared, *sizes)
        index.append(_CENTRAL.pack(_CENTRAL_SIGN, _VERSION, *shared, *sizes, 0, 0, 0, 0, at) + raw)
        parts += (header, raw, data)
        at += len(header) + len(raw) + len(data)
    listing = b"".join(index)
    count = len(index)
    end = _END.pack(_END_SIGN, 0, 0, count, count, len(listing), at, 0)
    return b"".join((*parts, listing, end))


def read_zip(data: bytes) -> dict[str, bytes]:
    """The members of a container; refuses every byte that the writer would not have written.

    A short file is `bundle.incomplete`, bytes after the end are `bundle.extra`, anything else is
    `bundle.hash_mismatch`.
    """
    members: dict[str, bytes] = {}
    at = 0
    while data[at : at + 4] == _LOCAL_SIGN:
        if at + _LOCAL.size > len(data):
            _short()
        row = _LOCAL.unpack_from(data, at)
        size, length = row[7], row[9]
        begin = at + _LOCAL.size
        at = begin + length + size
        if at > len(data):
            _short()
        name = data[begin : begin + length].decode("utf-8", "replace")
        if name in members:
            raise _refusal("bundle.extra", f"{name} stands twice in the container", name)
        members[name] = data[begin + length : at]
        if zlib.crc32(members[name]) != row[6]:
            raise _refusal("bundle.hash_mismatch", f"{name} is damaged", name)
    if len(data) - at < len(_LOCAL_SIGN):
        _short()
    whole = write_zip(members)
    if data != whole:
        _not_ours(data, whole)
    return members


def _not_ours(data: bytes, whole: bytes) -> NoReturn:
    if whole.startswith(data):
        _short()
    if data.startswith(whole):
        raise _refusal("bundle.extra", "bytes stand after the end of the container", "")
    message = "the container is not as `tally bundle build` writes it"
    raise _refusal("bundle.hash_mismatch", message, "")


def _short() -> NoReturn:
    raise _refusal("bundle.incomplete", "the container ends too early", "")


def _refusal(code: str, message: str, member: str) -> BadDefinition:
    hint = "copy the bundle again, or build it again from its sources"
    return BadDefinition(message, code=code, where={"path": member}, hint=hint)
