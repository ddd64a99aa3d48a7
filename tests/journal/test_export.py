"""Exports: one file holds a world, proves itself, and becomes the same world elsewhere."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random

import pytest

from tallystick.errors import Conflict, JournalCorrupt, TallyError
from tallystick.journal import export
from tallystick.journal.export import MAGIC, export_bundle, export_jsonl
from tallystick.journal.imports import import_world, load, opened, verify_export
from tallystick.journal.memory import MemoryJournal
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import verify
from tallystick.kernel.roots import root
from tallystick.node.worlds import world_at
from tallystick.values import canon
from tests.journal.damage import grown
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import WORLD, Rig
from tests.worlds import CREATED, created


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory):
    made = grown(tmp_path_factory.mktemp("data"))
    made.journal.alias("shop", WORLD)
    yield made
    made.journal.close()


@pytest.fixture
def exported(rig: Rig, tmp_path: Path) -> Path:
    return export_of(rig, tmp_path / "shop.tally")


def export_of(rig: Rig, path: Path) -> Path:
    with path.open("wb") as out:
        said = export_bundle(rig.journal, rig.world.id, out)
    assert said.bytes <= path.stat().st_size
    assert said.seq == rig.world.seq
    return path


@pytest.mark.clause("K-12")
def test_an_export_verifies_alone(rig: Rig, exported: Path) -> None:
    """D9, 04 section 9: from the file and nothing else: chain, seals, blobs, root, checkpoints."""
    verdict = verify_export(exported)
    assert verdict.ok, verdict.first_bad
    assert verdict.root == rig.root()
    there = verify(rig.journal, WORLD)
    assert verdict._replace(seconds=0) == there._replace(seconds=0)


def test_an_export_is_a_function_of_the_world(rig: Rig, exported: Path, tmp_path: Path) -> None:
    """04 section 9: exported twice, and exported from an import: equal bytes."""
    assert export_of(rig, tmp_path / "again").read_bytes() == exported.read_bytes()
    with opened(exported) as (journal, world):
        journal.alias("shop", world)
        out = io.BytesIO()
        export_bundle(journal, world, out)
    assert out.getvalue() == exported.read_bytes()


@pytest.mark.clause("K-19")
@pytest.mark.invariant("I2")
def test_an_import_is_the_same_world(rig: Rig, exported: Path, tmp_path: Path) -> None:
    """I2: in SQLite and in memory the imported world opens to the same root, under its name."""
    for journal in (SqliteJournal(tmp_path / "other", spill_bytes=500), MemoryJournal()):
        assert import_world(exported, journal, "copy") == WORLD
        assert journal.resolve("copy") == WORLD
        assert root(world_at(journal, WORLD, rig.runner)) == rig.root()
        assert root(world_at(journal, WORLD, rig.runner, seq=30)) == root(
            world_at(rig.journal, WORLD, rig.runner, seq=30)
        )
        with pytest.raises(Conflict) as caught:
            import_world(exported, journal)
        assert caught.value.code == "world.exists"
        journal.close()


@pytest.mark.clause("X-08")
def test_a_fork_is_exported_with_its_prefix(tmp_path: Path) -> None:
    """06 section 11: the prefix is in the export; beside its own parent a fork shares it again."""
    rig = grown(tmp_path / "data")
    child = child_rig(rig, 1, 20)
    child.send(CREATED, created("only-here"))
    grandchild = child_rig(child, 2, None)
    wanted = grandchild.root()
    path = export_of(grandchild, tmp_path / "fork.tally")
    verdict = verify_export(path)
    assert verdict.ok, verdict.first_bad
    assert verdict.root == wanted
    alone = SqliteJournal(tmp_path / "alone")
    assert import_world(path, alone) == child_id(2)
    assert root(world_at(alone, child_id(2), rig.runner)) == wanted
    beside = SqliteJournal(tmp_path / "beside")
    import_world(export_of(rig, tmp_path / "parent.tally"), beside)
    import_world(path, beside)
    assert root(world_at(beside, child_id(2), rig.runner)) == wanted
    assert verify(beside, child_id(2)).ok
    assert beside.head(WORLD).seq == rig.world.seq
    for journal in (alone, beside, rig.journal):
        journal.close()


def test_another_parent_is_no_parent(tmp_path: Path) -> None:
    """I7: a world of the same id with another history is not what the fork was made from."""
    rig = grown(tmp_path / "data")
    child = child_rig(rig, 1, 20)
    path = export_of(child, tmp_path / "fork.tally")
    other = SqliteJournal(tmp_path / "other")
    other.acquire(WORLD)
    with pytest.raises(Conflict) as caught:
        load(path, other)
    assert caught.value.code == "world.other_history"
    other.close()
    rig.journal.close()


@pytest.mark.clause("K-12")
def test_no_changed_byte_gets_in(exported: Path, tmp_path: Path) -> None:
    """UI-25, F9: flipped, cut, extended: refused with a code, and nothing is imported."""
    whole = exported.read_bytes()
    chance = Random("export")
    places = [chance.randrange(len(whole)) for _ in range(12)]
    changed = [whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in places]
    changed += [whole[:at] for at in (0, 5, len(MAGIC), len(MAGIC) + 4, *places[:3])]
    changed += [whole + b"x", whole + whole]
    journal = MemoryJournal()
    path = tmp_path / "changed.tally"
    codes = set()
    for data in changed:
        path.write_bytes(data)
        with pytest.raises(TallyError) as caught:
            import_world(path, journal)
        codes.add(caught.value.code)
        assert journal.worlds() == []
    assert {"export.format", "export.incomplete", "export.damaged", "export.extra"} <= codes


HOSTILE: list[tuple[int, bytes]] = [
    (export.FRAME, b""),
    (export.FRAME, b"garbage"),
    (export.FRAME, canon.encode({"v": 1})),
    (export.SNAPSHOT, canon.encode([1, 2])),
    (export.SNAPSHOT, canon.encode("text")),
    (export.SNAPSHOT, canon.encode([{}, [], None, {}, "x"])),
    (export.SNAPSHOT, b"no document"),
    (export.CHECKPOINT, canon.encode([])),
    (export.CHECKPOINT, canon.encode([[1], 2])),
    (export.CHECKPOINT, canon.encode([WORLD, *[{"a": 1}] * 7])),
    (export.HEADER, canon.encode({})),
    (ord("X"), b""),
]


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_a_hostile_item_is_refused(tmp_path: Path, at: int) -> None:
    """F9: an item of the wrong form under a digest that is right is refused, with a code."""
    path = tmp_path / "hostile.tally"
    with path.open("wb") as out:
        writer = export._Writer(out)
        writer.item(export.HEADER, canon.encode(header_of()))
        writer.item(*HOSTILE[at])
        writer.item(export.END, canon.encode({"digest": writer.hash.digest()}))
    with pytest.raises(TallyError) as caught:
        verify_export(path)
    assert caught.value.code.startswith(("export.", "journal."))


def header_of(kind: str = "export@1", **changed: object) -> dict[str, object]:
    row = {"world": WORLD, "fork_seq": None, "base": [0, bytes(32)], **changed}
    return {"$type": kind, "format": 1, "world": WORLD, "name": None, "line": [row]}


HEADERS: list[object] = [
    [],
    {**header_of(), "line": []},
    header_of("other"),
    header_of(world=1),
    header_of(fork_seq=3, base=[3, bytes(32)]),
    header_of(base=[0, b""]),
    header_of(base=0),
]


@pytest.mark.parametrize("header", HEADERS)
def test_a_hostile_header_is_refused(tmp_path: Path, header: object) -> None:
    """F9: a header that is not one is refused before anything is written."""
    path = tmp_path / "hostile.tally"
    with path.open("wb") as out:
        writer = export._Writer(out)
        writer.item(export.HEADER, canon.encode(header))
        writer.item(export.END, canon.encode({"digest": writer.hash.digest()}))
    with pytest.raises(TallyError) as caught:
        verify_export(path)
    assert caught.value.code == "export.malformed"


def test_a_well_formed_forgery_is_found(rig: Rig, exported: Path, tmp_path: Path) -> None:
    """ND-23: an export whose own digest is right, made from a changed journal, does not verify."""
    journal = rig.journal
    assert isinstance(journal, SqliteJournal)
    journal._db.execute("BEGIN")
    body = next(iter(journal.read(WORLD, 10))).body
    journal._db.execute("UPDATE frame SET body=? WHERE body=?", (body[:-1] + b"\x00", body))
    path = export_of(rig, tmp_path / "forged.tally")
    journal._db.execute("ROLLBACK")
    with pytest.raises(JournalCorrupt) as caught:
        import_world(path, MemoryJournal())
    assert caught.value.code == "export.damaged"
    assert caught.value.where["seq"] >= 11


def test_the_lines_of_an_export(rig: Rig) -> None:
    """04 section 9: a head line, one line per record, an end line; any span."""
    lines = [json.loads(line) for line in export_jsonl(rig.journal, WORLD)]
    assert lines[0] == {
        "tally": "export",
        "format": 1,
        "world": WORLD,
        "from": 1,
        "to": rig.world.seq,
    }
    assert [line["seq"] for line in lines[1:-1]] == list(range(1, rig.world.seq + 1))
    assert lines[-1]["records"] == rig.world.seq
    assert lines[-1]["head"] == "sha256:" + rig.driver.head.hash.hex()
    part = [json.loads(line) for line in export_jsonl(rig.journal, WORLD, 5, 9)]
    assert [line["seq"] for line in part[1:-1]] == [5, 6, 7, 8, 9]
