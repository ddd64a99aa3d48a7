"""Which directory is whose: claims, copies, names and giving back, on a real disk."""

from __future__ import annotations

import asyncio
import shutil
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Conflict, Rejected, TallyError, UnknownName
from tallystick.node import workspaces
from tallystick.node.stamps_log import StampsLog
from tallystick.node.workspaces import Kept, Workspaces
from tallystick.reactions.stamps import Stamps
from tallystick.values import canon
from tests.reactions.noded import noded, scene


def refused(folder: Path, world: str, *, shared: bool = False) -> TallyError:
    with pytest.raises(TallyError) as caught:
        workspaces.claim(folder, world, "ws-new", shared=shared)
    return caught.value


def kept(world: str, ident: str, folder: str) -> Kept:
    return Kept(world, ident, folder, shared=False, folding=False)


def test_only_a_directory_is_claimed(tmp_path: Path) -> None:
    """08 section 3: a file and a name of nothing are refused, and nothing is made there."""
    (tmp_path / "a.txt").write_text("1", "utf-8")
    for name in ("a.txt", "none"):
        why = refused(tmp_path / name, "w1")
        assert isinstance(why, Rejected)
        assert (why.code, why.where["path"]) == ("workspace.no_directory", str(tmp_path / name))
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_directory_that_was_given_back_is_free(tmp_path: Path) -> None:
    """08 section 3: it belongs to one world until that gives it back; it stays the workspace."""
    first = workspaces.claim(tmp_path, "w1", "ws-1", shared=False)
    assert refused(tmp_path, "w2").code == "workspace.owned"
    assert workspaces.owned(tmp_path, "w1")
    workspaces.release(tmp_path, "w2")
    assert workspaces.owned(tmp_path, "w1"), "what another world gives back is not its own"
    workspaces.release(tmp_path, "w1")
    assert not workspaces.owned(tmp_path, "w1")
    second = workspaces.claim(tmp_path, "w2", "ws-2", shared=False)
    assert second.workspace_id == first.workspace_id == "ws-1"


def test_giving_back_what_carries_no_name_changes_nothing(tmp_path: Path) -> None:
    """08 section 3: a directory that was emptied or deleted meanwhile is left as it is."""
    workspaces.release(tmp_path / "deleted", "w1")
    workspaces.release(tmp_path, "w1")
    assert list(tmp_path.iterdir()) == []
    workspaces.claim(tmp_path, "w1", "ws-1", shared=False)
    (tmp_path / ".tally/workspace").unlink()
    workspaces.release(tmp_path, "w1")
    assert not (tmp_path / ".tally/workspace").exists()


def test_a_copy_is_refused_and_a_moved_directory_is_not(tmp_path: Path) -> None:
    """08 section 3: two directories with one id would be one workspace twice."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    first = workspaces.claim(old, "w1", "ws-1", shared=False)
    shutil.copytree(old, new)
    second = workspaces.claim(new, "w1", "ws-2", shared=False)
    with pytest.raises(Conflict) as caught:
        workspaces.refuse_copy(second, [first])
    assert caught.value.code == "workspace.copied"
    assert ".tally/workspace" in (caught.value.hint or "")
    shutil.rmtree(old)
    workspaces.refuse_copy(second, [first])
    workspaces.refuse_copy(second, [])


def test_an_identity_that_nobody_can_read_is_not_overwritten(tmp_path: Path) -> None:
    """08 section 3: a torn identity is refused with what to do, and kept."""
    (tmp_path / ".tally").mkdir()
    (tmp_path / ".tally/workspace").write_text("{half", "utf-8")
    why = refused(tmp_path, "w1")
    assert why.code == "workspace.bad_identity"
    assert "remove the file" in (why.hint or "")
    assert (tmp_path / ".tally/workspace").read_text("utf-8") == "{half"


@pytest.mark.parametrize("text", ["{}", "[]", '{"workspace_id": 5, "owners": {}}', '{"a": 1}'])
def test_an_identity_of_another_shape_is_not_overwritten(tmp_path: Path, text: str) -> None:
    """08 section 3: what is JSON and no identity was replaced, or an error of the node (500)."""
    (tmp_path / ".tally").mkdir()
    (tmp_path / ".tally/workspace").write_text(text, "utf-8")
    assert refused(tmp_path, "w1").code == "workspace.bad_identity"
    assert (tmp_path / ".tally/workspace").read_text("utf-8") == text


def test_a_directory_that_cannot_keep_its_name_is_refused(tmp_path: Path) -> None:
    """08 section 3: a file in place of `.tally`, or of what is in it, was an error of the node."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.tally").write_text("a file", "utf-8")
    (tmp_path / "b/.tally/workspace").mkdir(parents=True)
    for name in ("a", "b"):
        why = refused(tmp_path / name, "w1")
        assert (why.code, why.status) == ("workspace.bad_state", 400)
        assert why.where["path"] == str(tmp_path / name / ".tally")
        assert why.hint
    assert refused(Path("/proc"), "w1").code == "workspace.bad_state"


@pytest.mark.clause("X-24")
def test_a_name_is_kept_in_the_directory_itself(tmp_path: Path) -> None:
    """08 section 3: a `.tally` that leads elsewhere made the node write files there."""
    elsewhere, one, two = tmp_path / "elsewhere", tmp_path / "one", tmp_path / "two"
    for each in (elsewhere, one, two / ".tally"):
        each.mkdir(parents=True)
    (one / ".tally").symlink_to(elsewhere)
    assert refused(one, "w1").code == "workspace.bad_state"
    for name in ("Probe", "workspace.lock"):
        (two / ".tally" / name).symlink_to(elsewhere / name)
    assert refused(two, "w1").code == "workspace.bad_state"
    (two / ".tally/workspace.lock").unlink()
    workspaces.claim(two, "w1", "ws-1", shared=False)
    assert list(elsewhere.iterdir()) == []


def test_a_workspace_is_found_by_whatever_names_it_alone(tmp_path: Path) -> None:
    """08 section 3: by id, its beginning, folder and its name; among those of the world only."""
    rows = Workspaces(tmp_path)
    one, two = kept("w1", "ws-11", "/a/docs"), kept("w1", "ws-12", "/b/notes")
    for each in (one, two, kept("w2", "ws-21", "/c/docs")):
        rows.put(each)
    again = Workspaces(tmp_path)
    for name in ("ws-11", "/a/docs", "docs"):
        assert again.find("w1", name) == one
    assert again.find("w1", "ws-12") == again.find("w1", "notes") == two
    for name, said in (("ws-1", "several"), ("", "no workspace"), ("ws-21", "no workspace")):
        with pytest.raises(UnknownName, match=said) as caught:
            again.find("w1", name)
        assert caught.value.hint == "known: docs, notes"
    again.drop(one)
    assert [each.workspace_id for each in Workspaces(tmp_path).of("w1")] == ["ws-12"]
    with pytest.raises(UnknownName) as caught:
        again.find("w3", "docs")
    assert caught.value.hint == "known: none yet"


ANNOUNCED: dict[str, Any] = dict.fromkeys(
    ("path", "reaction", "run_id", "run_key", "definition_hash"), "a"
)
ANNOUNCED |= {"post_id": None, "depth": 0, "root_trigger_id": None, "lineage": []}
ODD: tuple[dict[str, Any], ...] = (
    {},
    {"world": "w2"},
    {"world": ["w2"], "stamp": ANNOUNCED},
    {"world": "w2", "stamp": [1]},
    {"world": "w2", "stamp": {**ANNOUNCED, "path": 5}},
    {"world": "w2", "stamp": {**ANNOUNCED, "lineage": 7}},
    {"world": "w2", "stamp": {**ANNOUNCED, "post_id": [3]}},
)


def test_a_line_of_the_shared_log_that_is_no_stamp_is_passed_over(tmp_path: Path) -> None:
    """08 section 3: one ended the watching of the directory until the next start."""
    (tmp_path / ".tally").mkdir()
    rows = [*ODD, {"world": "w2", "stamp": ANNOUNCED}]
    lines = [b64encode(canon.encode({"$type": "announced@1", **row})) + b"\n" for row in rows]
    (tmp_path / ".tally/stamps.log").write_bytes(b"".join(lines))
    stamps = Stamps()
    assert StampsLog(kept("w1", "ws-1", str(tmp_path))).read(stamps) == 1
    assert [stamp.world for stamp in stamps.by_path("ws-1", b"a")] == ["w2"]


def test_a_directory_that_lost_its_name_is_given_up_all_the_same(tmp_path: Path) -> None:
    """08 section 3: `workspace rm` was refused over a torn name, after the watching had ended."""

    async def run() -> None:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws")
            await here.add()
            (here.folder / ".tally/workspace").write_text("{half", "utf-8")
            await node.watching.remove(here.kept)
            assert node.watching.workspaces.of(here.kept.world) == []

    asyncio.run(asyncio.wait_for(run(), 120))
