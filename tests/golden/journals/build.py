"""Writes the golden journal files; run it only when a format is changed on purpose.

    records.json   the bytes of one record of every type
    mixed.tally    a whole journal: frames, blobs and snapshots, as one canonical document
    mixed.txt      the same for readers: every record, and the pinned roots at the end
    governed.*     the same of a world whose bundle was changed by proposals
    upgraded.*     the same of a world with ten upgrades while cells were open

A file of an older release is never written again: a new release adds one beside it.
Run as `python -m tests.golden.journals.build`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tallystick.model.frames import open_frame
from tallystick.model.records import put_record
from tallystick.values import canon
from tests.kernel import governed, mixed, upgraded
from tests.model.test_records import BY_TYPE
from tests.rig import Rig

HERE = Path(__file__).parent


def write_records() -> None:
    golden = {name: put_record(BY_TYPE[name]).hex() for name in sorted(BY_TYPE)}
    text = json.dumps(golden, indent=1) + "\n"
    (HERE / "records.json").write_text(text, encoding="utf-8")


def export(rig: Rig) -> dict[str, Any]:
    """All that a journal keeps of a world."""
    world = rig.world.id
    book = rig.journal._books[world]
    return {
        "world": world,
        "frames": [[f.seq, f.last, f.prev, f.hash, f.body] for f in rig.journal.read(world)],
        "blobs": [book.blobs[digest] for digest in sorted(book.blobs)],
        "snapshots": [list(row) for row in rig.journal.snapshots(world)],
    }


def shown(value: Any) -> str:
    """A field for readers: bytes as hex, cut where nobody reads on."""
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def rendered(frames: list[bytes], roots: tuple[bytes, bytes]) -> str:
    """One line per record, then the roots."""
    lines: list[str] = []
    for body in frames:
        _, seq, _, records = open_frame(body)
        for i, record in enumerate(records):
            fields = [
                f"{name}={shown(value)}"
                for name, value in zip(record._fields, record, strict=True)
                if value is not None and name != "stamp"
            ]
            lines.append(f"{seq + i:4} {type(record).__name__} {' '.join(fields)}")
    lines += [f"root {roots[0].hex()}", f"state_root {roots[1].hex()}"]
    return "\n".join(lines) + "\n"


def write_journal(name: str, rig: Rig) -> None:
    document = export(rig)
    (HERE / f"{name}.tally").write_bytes(canon.encode(document))
    text = rendered([frame[4] for frame in document["frames"]], (rig.root(), rig.state_root()))
    (HERE / f"{name}.txt").write_text(text, encoding="utf-8")


def write_mixed() -> None:
    rig = mixed.mixed_rig()
    mixed.play(rig)
    write_journal("mixed", rig)


def write_governed() -> None:
    rig = governed.lab(governance=governed.governance())
    governed.play(rig)
    write_journal("governed", rig)


def write_upgraded() -> None:
    rig = upgraded.upgraded_rig()
    upgraded.play(rig)
    write_journal("upgraded", rig)


if __name__ == "__main__":
    write_records()
    write_mixed()
    write_governed()
    write_upgraded()
