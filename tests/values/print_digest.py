"""Print one digest over many documents; run in different surroundings, it must not change."""

from __future__ import annotations

import json
import struct
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from tallystick.errors import NotCanonical
from tallystick.values import canon


def value_of(tree: list[Any]) -> Any:
    """As in `documents`, repeated because this runs on Pythons without the test tools."""
    match tree:
        case ["int", digits]:
            return int(digits)
        case ["bytes", digits]:
            return bytes.fromhex(digits)
        case ["float", digits]:
            return struct.unpack(">d", bytes.fromhex(digits))[0]
        case ["array", items]:
            return [value_of(item) for item in items]
        case ["map", pairs]:
            return {value_of(key): value_of(item) for key, item in pairs}
    return tree[1] if len(tree) > 1 else None


def main(golden: Path) -> None:
    """Feed everything the codec says into one digest."""
    total = sha256()
    for name in ("accepted.json", "identities.json"):
        for row in json.loads((golden / name).read_text(encoding="ascii")):
            total.update(canon.encode(value_of(row["value"])))
    # The order of a set of texts follows the hash seed; the document must not.
    words = {f"word {n} ü" for n in range(200)}
    total.update(canon.encode({word: {"n": n % 1} for n, word in enumerate(words)}))
    for row in json.loads((golden / "refused.json").read_text(encoding="ascii")):
        if "pad" in row:
            continue
        try:
            canon.decode(bytes.fromhex(row["hex"]))
        except NotCanonical as refusal:
            total.update(f"{refusal.code} {refusal.offset}".encode())
    print(total.hexdigest(), str(canon.__file__).endswith(".py"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
