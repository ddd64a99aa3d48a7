"""Exports that a stranger wrote: looked at without writing anywhere, and refused with a code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.errors import TallyError
from tallystick.journal import export
from tallystick.journal.imports import verify_export
from tallystick.journal.sqlite import SPILL_BYTES
from tallystick.model.frames import GENESIS, seal_frame
from tallystick.model.records import Noted
from tallystick.values import canon
from tests.journal.test_export import header_of
from tests.rig import WORLD


def sent(path: Path, header: object, *items: tuple[int, bytes]) -> Path:
    """An export whose own digest is right, whatever is in it."""
    with path.open("wb") as out:
        writer = export._Writer(out)
        writer.item(export.HEADER, canon.encode(header))
        for item in items:
            writer.item(*item)
        writer.item(export.END, canon.encode({"digest": writer.hash.digest()}))
    return path


@pytest.mark.invariant("I40")
def test_a_world_that_is_named_like_a_path_writes_nowhere(tmp_path: Path) -> None:
    """F9: the id of a world is the name of a folder for its large blobs, so it is an id or nothing:
    looking at an export writes to no place that the export names.
    """
    out = tmp_path / "out"
    header = {**header_of(world=str(out)), "world": str(out)}
    path = sent(tmp_path / "path.tally", header, (export.BLOB, bytes(SPILL_BYTES + 1)))
    with pytest.raises(TallyError) as caught:
        verify_export(path)
    assert caught.value.code == "export.malformed"
    assert not out.exists()


def frame(**changed: object) -> bytes:
    """The body of a first frame, with fields of another kind."""
    body = seal_frame(WORLD, 1, GENESIS, [Noted("n", {}), Noted("n", {})]).body
    return canon.encode({**canon.decode(body), **changed})


def cut_frame() -> bytes:
    """A body that ends where its records should begin."""
    key = canon.put_key("records")
    body = frame()
    return body[: body.index(key) + len(key)]


HOSTILE: list[tuple[int, bytes]] = [
    (export.FRAME, cut_frame()),
    (export.FRAME, frame(seq=2**63 - 1)),
    (export.SNAPSHOT, canon.encode([2**63 - 1, b"", b"", False, 2**64 - 1])),
    (export.SNAPSHOT, canon.encode([1, "text", b"", False, 0])),
    (export.CHECKPOINT, canon.encode([WORLD, "x", *[bytes(32)] * 3, 1, 1, b""])),
    (export.CHECKPOINT, canon.encode([WORLD, 1, *["text"] * 3, 1, 1, b""])),
    (export.CHECKPOINT, canon.encode([WORLD, 2**64 - 1, *[bytes(32)] * 3, 1, 1, b""])),
]


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_an_item_of_other_bounds_is_refused(tmp_path: Path, at: int) -> None:
    """F9: a frame that is cut, numbers that no journal holds, text where bytes must be: refused
    with a code, not with a trace of Python.
    """
    path = sent(tmp_path / "hostile.tally", header_of(), HOSTILE[at])
    with pytest.raises(TallyError) as caught:
        verify_export(path)
    assert caught.value.code == "export.malformed"


@pytest.mark.parametrize("seq", [2**64 - 1, 2**63, -1])
def test_a_floor_of_other_bounds_is_refused(tmp_path: Path, seq: int) -> None:
    """F9: a journal begins behind a sequence that there can be."""
    path = sent(tmp_path / "hostile.tally", header_of(base=[seq, bytes(32)]))
    with pytest.raises(TallyError) as caught:
        verify_export(path)
    assert caught.value.code == "export.malformed"
