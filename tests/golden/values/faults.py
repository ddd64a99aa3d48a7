"""Refused documents, by construction.

Every one is put together from a known fault, and its code and offset follow from the fault and from
where it was put; nothing here asks the codec.
A fault is reported at the head of the item that has it, a missing item where it should begin.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

PREFIX = "d9d9f7"
SIZE_MAX = 16 * 1024 * 1024

# ---- refused --------------------------------------------------------------------------------

# A fault of one item: (code, item, how far into the item it is reported, why).
Fault = tuple[str, str, int, str]


def head_faults() -> Iterator[Fault]:
    """Heads that are longer than needed, reserved, or without an end."""
    long = {24: ("00", "17"), 25: ("0000", "00ff"), 26: ("0000ffff",), 27: ("00000000ffffffff",)}
    for major in range(7):
        for info, arguments in long.items():
            for argument in arguments:
                item = f"{major << 5 | info:02x}{argument}"
                yield "cbor.not_minimal", item, 0, f"long head of major type {major}"
        for info in (28, 29, 30):
            yield "cbor.not_minimal", f"{major << 5 | info:02x}00", 0, "reserved head"
    chunks = {2: "4100ff", 3: "6161ff", 4: "00ff", 5: "616100ff"}
    for major in range(7):
        item = f"{major << 5 | 31:02x}{chunks.get(major, '00')}"
        yield "cbor.indefinite", item, 0, f"indefinite length of major type {major}"
    yield "cbor.indefinite", "ff", 0, "a break alone"


def simple_faults() -> Iterator[Fault]:
    """Tags, simple values and floats outside the profile."""
    tags = ["c074323031332d30332d32315432303a30343a30305a", "c11a514b67b0", "c24101", "c34101"]
    tags += [
        "d74401020304",
        "d818456449455446",
        "d82076687474703a2f2f7777772e6578616d706c652e636f6d",
    ]
    tags += ["d9d9f7a0", "d9010080", "da0001000000", "db000000010000000000", "c6c600"]
    for item in tags:
        yield "cbor.tag", item, 0, "a tag after the prefix"
    for first in range(0xE0, 0xF4):
        yield "cbor.simple", f"{first:02x}", 0, "an unassigned simple value"
    for item in ("f7", "f800", "f818", "f820", "f8f4", "f8ff", "fc", "fd", "fe"):
        yield "cbor.simple", item, 0, "undefined, two-byte or reserved simple value"
    for item in ("f97e00", "f97c00", "f9fc00", "fa7f800000", "fa7fc00000", "faff800000"):
        yield "cbor.float", item, 0, "NaN or infinity"
    for item in ("fb7ff0000000000000", "fb7ff8000000000000", "fbfff0000000000000", "f97e01"):
        yield "cbor.float", item, 0, "NaN or infinity"
    for item in ("f90000", "f98000", "f93c00", "fa47c35000", "fb4340000000000000"):
        yield "cbor.float", item, 0, "an integral float within 2^53"
    for item in ("fbc340000000000000", "fb8000000000000000", "fb3ff0000000000000"):
        yield "cbor.float", item, 0, "an integral float within 2^53"
    for item in ("fa3fc00000", "fb3ff8000000000000", "fb3fb99999a0000000", "fa33800000"):
        yield "cbor.float", item, 0, "the float has a shorter form"
    for item in ("fb43b0000000000000", "fb3e70000000000000", "fbbff8000000000000"):
        yield "cbor.float", item, 0, "the float has a shorter form"
    for item in ("3b8000000000000000", "3bffffffffffffffff", "3b8000000000000001"):
        yield "cbor.int_range", item, 0, "under -2^63"


def text_faults() -> Iterator[Fault]:
    """Texts that are not UTF-8; the text's own head is the offset."""
    bad = [
        "80",
        "bf",
        "ff",
        "fe",
        "c3",
        "c080",
        "c1bf",
        "c328",
        "e282",
        "e28228",
        "e08080",
        "eda080",
    ]
    bad += ["edbfbf", "f0808080", "f4908080", "f8888080", "f09080", "61ff", "c3bc80", "edb080"]
    for raw in bad:
        yield "cbor.utf8", f"{0x60 + len(raw) // 2:02x}{raw}", 0, "not UTF-8"
    yield "cbor.utf8", "7818" + "61" * 23 + "c3", 0, "a sequence is cut off in a long text"


def cut_faults() -> Iterator[Fault]:
    """Items whose last bytes are missing; only the end of a document can show them."""
    for major in range(7):
        for info, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
            item = f"{major << 5 | info:02x}" + "ff" * (width - 1)
            yield "cbor.truncated", item, 0, "a head is cut off"
    for item in ("41", "4200", "5818" + "00" * 23, "590100" + "00" * 255):
        yield "cbor.truncated", item, 0, "a byte string is cut off"
    for item in ("61", "6261", "7818" + "61" * 23, "790100" + "61" * 255):
        yield "cbor.truncated", item, 0, "a text is cut off"
    for item in ("5a7fffffff00", "5bffffffffffffffff00", "7affffffff61", "7b7fffffffffffffff61"):
        yield "cbor.truncated", item, 0, "a length far beyond what is there"
    for item in (
        "9affffffff00",
        "9bffffffffffffffff00",
        "bbffffffffffffffff0000",
        "ba8000000000f6",
    ):
        yield "cbor.truncated", item, 0, "a count far beyond what is there"
    for item in ("f900", "fa000000", "fb00000000000000", "f9", "fa", "fb"):
        yield "cbor.truncated", item, 0, "a float is cut off"
    for item in ("81", "8200", "98180000", "a1", "a160", "a2616100"):
        yield "cbor.truncated", item, 0, "fewer bytes than the count needs at least"
    # The count could be right, so the fault shows only where the next item should begin.
    for item in ("828100", "83820000f6", "a16161", "a118ff", "a26161006162", "a26161820000"):
        yield "cbor.truncated", item, len(item) // 2, "an item is missing"
    yield "cbor.truncated", "a16261", 1, "a key is cut off"
    yield "cbor.truncated", "a2616100" + "1901", 4, "a key is cut off"


def key_faults() -> Iterator[Fault]:
    """Maps with keys that are out of order, repeated, or of another kind."""
    # Ascending, bytewise; each pair reversed is out of order, and the second key is reported.
    order = ["00", "0a", "17", "1818", "1864", "190100", "20", "37", "3818"]
    order += ["60", "6161", "6162", "626161", "626162", "7818" + "61" * 24]
    for low, high in itertools.pairwise(order):
        yield "cbor.key_order", f"a2{high}00{low}00", 2 + len(high) // 2, "keys are swapped"
    for low, high in (("1864", "20"), ("00", "6161"), ("20", "60"), ("6162", "626161")):
        item = f"a3{low}00{high}00{low}00"
        yield "cbor.key_order", item, 3 + len(low + high) // 2, "the third key is too small"
    for key in order:
        yield "cbor.key_duplicate", f"a2{key}00{key}01", 2 + len(key) // 2, "a key twice"
    for key in ("40", "4161", "80", "8100", "a0", "c000", "c24101", "d82000", "e0", "f4", "f5"):
        yield "cbor.key_type", f"a1{key}00", 1, "a key that is no integer and no text"
    for key in ("f6", "f7", "f93e00", "fb3fb999999999999a", "5f4161ff", "9fff", "ff"):
        yield "cbor.key_type", f"a1{key}00", 1, "a key that is no integer and no text"
    yield "cbor.key_type", "a2616100" + "4161" + "00", 4, "the second key is a byte string"
    yield "cbor.not_minimal", "a1180000", 1, "a key with a long head"
    yield "cbor.not_minimal", "a178016100", 1, "a key with a long head"
    yield "cbor.utf8", "a161ff00", 1, "a key that is not UTF-8"
    yield "cbor.indefinite", "a17f6161ff00", 1, "a key of indefinite length"
    yield "cbor.int_range", "a13b800000000000000000", 1, "a key under -2^63"


# Where an item may stand: (what comes before it, what comes behind it).
PLACES = {
    "alone": ("", ""),
    "first of an array": ("82", "f6"),
    "last of an array": ("8200", ""),
    "value in a map": ("a16161", ""),
    "deep": ("81a1626b31830102", ""),
}


def placed(fault: Fault, place: str) -> dict[str, Any]:
    """A document with the fault in that place."""
    code, item, into, why = fault
    before, behind = PLACES[place]
    data = PREFIX + before + item + behind
    offset = len(PREFIX + before) // 2 + into
    return {"hex": data, "code": code, "offset": offset, "why": f"{why}; {place}"}


def whole_documents() -> Iterator[dict[str, Any]]:
    """Faults of the document itself: prefix, end, depth and size."""

    def row(data: str, code: str, offset: int, why: str) -> dict[str, Any]:
        return {"hex": data, "code": code, "offset": offset, "why": why}

    for data in ("", "d9", "d9d9", "a0", "00", "d9d9f6a0", "d9d9f8a0", "d8d9f7a0", "f7d9d9a0"):
        yield row(data, "cbor.prefix", 0, "no self-describe prefix")
    for data in ("da0000d9d9f7a0", "7b7d", "7b2261223a317d", "efbbbfd9d9f7a0", "d9f7d9a0"):
        yield row(data, "cbor.prefix", 0, "no self-describe prefix")
    yield row(PREFIX, "cbor.truncated", 3, "a prefix and no item")
    for item in ("a0", "00", "6161", "4100", "8100", "f6", "f93e00", "1818", "a1616100"):
        for tail in ("00", "f6", "ff", "d9d9f7a0"):
            offset = len(PREFIX + item) // 2
            yield row(PREFIX + item + tail, "cbor.trailing", offset, "bytes after the item")
    yield row(PREFIX + "81" * 65 + "00", "cbor.depth", 3 + 64, "65 arrays")
    yield row(PREFIX + "81" * 64 + "80", "cbor.depth", 3 + 64, "65 arrays, the last one empty")
    yield row(PREFIX + "a100" * 65 + "00", "cbor.depth", 3 + 128, "65 maps")
    yield row(PREFIX + "81a100" * 33 + "00", "cbor.depth", 3 + 96, "33 arrays around 33 maps")
    yield row(PREFIX + "81" * 1000, "cbor.depth", 3 + 64, "1000 arrays, cut off")
    yield row(PREFIX + "a1616181" * 40 + "f6", "cbor.depth", 3 + 128, "40 maps around 40 arrays")
    for first, count in (("5a01000000", SIZE_MAX - 7), ("60", SIZE_MAX), ("00", 2 * SIZE_MAX)):
        big = row(PREFIX + first, "cbor.size", SIZE_MAX, "a document over 16 MiB")
        yield {**big, "pad": {"byte": "00", "count": count}}


def refused() -> list[dict[str, Any]]:
    """All refused documents, without repeats."""
    rows = list(whole_documents())
    anywhere = [*head_faults(), *simple_faults(), *text_faults(), *key_faults()]
    rows += [placed(fault, "alone") for fault in anywhere]
    inner = [place for place in PLACES if place != "alone"]
    # Elsewhere every third fault is enough; the step is prime to the lists, so all kinds come.
    rows += [placed(fault, place) for place in inner for fault in anywhere[inner.index(place) :: 3]]
    last = [place for place in PLACES if not PLACES[place][1]]
    rows += [placed(fault, place) for fault in cut_faults() for place in last]
    return list({(row["hex"], "pad" in row): row for row in rows}.values())
