"""Names that differ by case, where a disk takes them for one, and where it does not (S23)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.reactions import scopes
from tallystick.reactions.document import load
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import EMPTY, Tree, TreeNode, with_changes
from tests.reactions import desk as desk_module
from tests.reactions.desk import WS, Desk, look
from tests.reactions.folded import folding_disk
from tests.reactions.noded import noded, scene
from tests.reactions.scenario import at_desk, planted

WRITER = """\
reaction: writer
on: [{files: [in.txt]}]
reads: {files: [in.txt]}
writes: {files: ["Out/**"]}
cooldown: 0s
actions:
  - {name: in, file.read: {paths: [in.txt]}}
  - {name: out, file.write: {path: "out/x", content: "of {{ actions.in.text }}"}}
"""
READER = """\
reaction: reader
on: [{files: ["{README,readme}"]}]
actions: [{name: t, telemetry.emit: {name: n}}]
"""


def edited(desk: Desk, *words: str) -> None:
    desk.write("in.txt", "0")
    desk.begin()
    for word in words:
        desk.write("in.txt", word)
        desk.settle_down()


@pytest.mark.clause("F-12")
def test_s23_the_scope_s_spelling_is_written(tmp_path: Path) -> None:
    """S23: told that names fold, out/x under Out/** is Out/x: one stamp, its own afterwards."""
    with at_desk(tmp_path / "w", WRITER) as desk:
        desk.folding = True
        edited(desk, "1", "2")
        assert [run["outcome"] for run in desk.runs()] == ["complete", "complete"]
        assert desk.read("Out/x") == "of 2"
        assert list(desk.stamps.paths(WS)) == [b"Out/x"]


@pytest.mark.clause("F-12")
def test_s23_each_file_has_its_own_spelling(tmp_path: Path) -> None:
    """S23: of two files a later run finds each by its earlier spelling; both are written again."""
    line = '  - {name: too, file.write: {path: "OUT/y", content: "{{ actions.in.text }}"}}\n'
    with at_desk(tmp_path / "w", WRITER + line) as desk:
        desk.folding = True
        edited(desk, "1", "2")
        assert [run["outcome"] for run in desk.runs()] == ["complete", "complete"]
        assert sorted(desk.stamps.paths(WS)) == [b"Out/x", b"Out/y"]
        late = Stamps()
        for stamp in desk.stamps.entries():
            late.add(stamp)
        late.fold_names(WS)
        assert late.by_path(WS, b"oUT/X") == desk.stamps.by_path(WS, b"Out/x") != ()


@pytest.mark.clause("F-12")
def test_s23_elsewhere_another_case_is_another_file(tmp_path: Path) -> None:
    """S23, S47: where names do not fold, out/x is out of scope, and nothing is written."""
    with at_desk(tmp_path / "w", WRITER) as desk:
        edited(desk, "1")
        assert [(run["outcome"], run["code"]) for run in desk.runs()] == [
            ("failed", "scope_violation")
        ]
        assert not (desk.root_path / "out").exists()


@pytest.mark.clause("F-12")
@pytest.mark.parametrize(
    ("glob", "path", "wanted"),
    [
        ("Out/**", "out/x", "Out/x"),
        ("Out/**", "OUT/Deep/X", "Out/Deep/X"),
        ("{Out,Gen}/*.md", "gen/a.md", "Gen/a.md"),
        ("Out/X", "out/x", "Out/X"),
        ("Out/A/*.md", "out/a/b.MD", None),
        ("Out/**", "other/x", None),
        ("Out/**", "out/../x", None),
        ("**", "out/x", "out/x"),
    ],
)
def test_a_path_in_the_spelling_of_its_scope(glob: str, path: str, wanted: str | None) -> None:
    """S23: plain names of the scope replace those of the path; what no glob means is refused."""
    text = WRITER.replace('"Out/**"', f'"{glob}"').replace("cooldown", "overlap: managed\ncooldown")
    definition = load(text, "w")
    made = scopes.spelled(definition, b"", path)
    refused = scopes.unwritable(definition, b"", made) is not None
    assert (None if refused else made) == wanted


async def s23(place: Path, data: Path) -> None:
    """One world over a workspace on a disk that folds."""
    async with noded(data) as node:
        here = await scene(node, place / "ws", writer=WRITER, reader=READER)
        here.write("in.txt", "0")
        here.write("README", "words")
        await here.add()
        assert here.kept.folding
        for word in ("1", "2", "3"):
            here.write("in.txt", word)
            await here.scan()
        rows = [row for row in await here.runs() if row["reaction"] == "writer"]
        assert [(row["state"], row["kind"]) for row in rows] == [("complete", "run")] * 3
        assert (here.folder / "out" / "x").read_text("utf-8") == "of 3"
        assert [each.name for each in (here.folder / "OUT").iterdir()] == ["x"]
        assert sorted(each.name for each in here.folder.iterdir() if "." not in each.name) == [
            "Out",
            "README",
        ]
        view = await node.watching.projected.now(here.world)
        assert list(view.stamps.paths(here.kept.workspace_id)) == [b"Out/x"]
        (here.folder / "README").rename(here.folder / "readme")
        await here.scan()
        view = await node.watching.projected.now(here.world)
        seen = [noted.value for noted in view.triggers.values()]
        (moved,) = [row for row in seen if row["reaction"] == "reader"]
        assert [(row["path"], row["change"]) for row in moved["changes"]] == [("readme", "renamed")]


@pytest.mark.clause("F-12")
def test_s23_on_a_disk_that_folds(tmp_path: Path, run: Callable[..., Any]) -> None:
    """S23: on exFAT out/x under Out/** is written, with one stamp; README to readme is `renamed`.

    Skips where such a disk cannot be mounted.
    """
    with folding_disk(tmp_path) as place:
        run(s23(place, tmp_path / "data"))


def test_s23_without_the_scope_s_spelling_it_is_refused(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    """RX-01: where a path is taken as it is written, S23 fails on that disk."""
    with (
        folding_disk(tmp_path) as place,
        planted(scopes, "spelled", lambda _definition, _target, path: path),
        pytest.raises(AssertionError),
    ):
        run(s23(place, tmp_path / "data"))


def capitals(root: Path) -> Tree:
    """The tree as a disk shows it on which somebody made `OUT` before."""
    plain = look(root)
    leaves: dict[bytes, TreeNode | None] = {
        b"OUT" + path[3:] if path[:3] == b"Out" else path: node
        for path, node in plain.items()
        if path
    }
    return with_changes(EMPTY, leaves)


def s23_spelled_by_the_disk(root: Path) -> None:
    with planted(desk_module, "look", capitals), at_desk(root, WRITER, replays=False) as desk:
        desk.folding = True
        edited(desk, "1", "2", "3")
        assert [run["outcome"] for run in desk.runs()] == ["complete"] * 3
        assert desk.read("Out/x") == "of 3"
        assert list(desk.stamps.paths(WS)) == [b"Out/x"]


@pytest.mark.clause("F-12")
def test_s23_the_disk_spells_it_in_its_own_way(tmp_path: Path) -> None:
    """S23, R3: the directory is OUT on disk: the stamp of Out/x explains the bytes of OUT/x."""
    s23_spelled_by_the_disk(tmp_path / "w")


def test_s23_stamps_that_do_not_fold_are_found_out(tmp_path: Path) -> None:
    """RX-01: where stamps know one spelling only, the second write conflicts and S23 fails."""
    with planted(Stamps, "fold_names", lambda *_: None), pytest.raises(AssertionError):
        s23_spelled_by_the_disk(tmp_path / "w")
