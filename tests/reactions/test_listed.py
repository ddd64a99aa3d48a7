"""Files by pages: the same rows and the same digest, however they were come by (R5, RX-12)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.reactions import keys
from tallystick.reactions.inputs import files_of
from tallystick.reactions.listed import Listed, Manifest, listed, row_of
from tallystick.values import canon
from tests.reactions.desk import WS
from tests.reactions.scenario import at_desk

NAMES = st.text(st.sampled_from("ab/\\x-\u00e9"), min_size=1, max_size=6)
HELD = st.one_of(st.none(), st.sampled_from([canon.hash_of(b"1"), canon.hash_of(b"2")]))
FRAMES = [([WS, "src"], "plan", canon.hash_of(b"p"))]


def flat(found: Listed) -> list[tuple[str, str | None]]:
    return [(row.path, row.held) for page in found.pages for row in page.rows]


@pytest.mark.clause("F-07")
@given(st.dictionaries(NAMES, HELD), st.dictionaries(NAMES, st.one_of(HELD, st.just("gone"))))
def test_changes_and_a_new_list_agree(
    before: dict[str, str | None], changed: dict[str, str | None]
) -> None:
    """R5: a list that was changed equals one that is made anew, page by page, and its digest."""
    moved = {path: None if held == "gone" else row_of(path, held) for path, held in changed.items()}
    after = {**before, **changed}
    after = {path: held for path, held in after.items() if held != "gone"}
    made, anew = listed(before.items()).with_changes(moved), listed(after.items())
    assert made == anew
    assert flat(anew) == sorted(after.items())
    assert anew.digest(FRAMES, {"n": 1}) == keys.input_digest(after.items(), FRAMES, {"n": 1})


def test_an_edit_among_many_makes_one_page() -> None:
    """R5: of thousands of rows one page is new; a row that ended a page joins it to the next."""
    files = {f"src/d{i // 100}/f{i}": canon.hash_of(b"%d" % i) for i in range(4_000)}
    first = listed(files.items())
    assert 15 < len(first.pages) < 80
    for path in ("src/d1/f100", next(r.path for p in first.pages for r in p.rows if r.ends)):
        other = first.with_changes({path: row_of(path, None)})
        assert len(set(other.names) - set(first.names)) == 1
    ends = [page.rows[-1].path for page in first.pages]
    joined = first.with_changes({ends[2]: None})
    assert len(joined.pages) == len(first.pages) - 1
    assert joined == listed({k: v for k, v in files.items() if k != ends[2]}.items())


@pytest.mark.clause("F-23")
def test_a_manifest_reads_its_pages_when_asked() -> None:
    """R5: the rows of a manifest come page by page, in order, and not before somebody asks."""
    found = listed((f"f{i}", canon.hash_of(b"x")) for i in range(600))
    blobs = {page.hash: page.data for page in found.pages}
    data = canon.encode({"$type": "manifest@1", "files": found.names, "outputs": []})
    asked: list[str] = []

    def content(name: str) -> bytes:
        asked.append(name)
        return blobs[name]

    manifest = Manifest(data, content)
    assert (manifest["$type"], asked) == ("manifest@1", [])
    assert [tuple(row) for row in manifest["files"]] == flat(found)
    assert asked == found.names


TWO = """
reaction: two
on: [{files: ["**"], generated: true}]
reads: {files: ["**/*.txt"]}
writes: {files: ["src/out.txt"]}
overlap: managed
ignore: ["**/skip*"]
cooldown: 0ms
actions: [{name: w, file.write: {path: src/out.txt, content: "{{ trigger.input_digest }}"}}]
"""


@pytest.mark.clause("F-20", "F-07")
def test_what_earlier_looks_found_changes_no_answer(tmp_path: Path) -> None:
    """R5: over a random history each list equals the one of an observer without a memory."""
    chance = random.Random(20261116)
    with at_desk(tmp_path / "w", TWO, replays=False) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        for _ in range(40):
            name = chance.choice(["a", "b", "d/c", "d/skip", "src/out"]) + ".txt"
            if chance.random() < 0.2 and (desk.root_path / name).exists():
                (desk.root_path / name).unlink()
            else:
                desk.write(name, str(chance.randrange(5)))
            if chance.random() < 0.15:
                desk.adopt("src/out.txt", chance.choice(["adopt", "forget"]))
            desk.settle_down()
            definition = desk.definitions[0]
            remembering = files_of(desk.sight(), definition, b"")
            desk.earlier, kept = type(desk.earlier)(), desk.earlier
            assert remembering == files_of(desk.sight(), definition, b"")
            desk.earlier = kept
