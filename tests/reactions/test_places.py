"""The same tree in two places: what is equal, and what says where it is (S51)."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tallystick.reactions import ids
from tallystick.reactions.document import load
from tallystick.reactions.observation import Observation
from tallystick.reactions.scan import Entry
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import Tree, tree_id
from tallystick.reactions.triggers import derive
from tests.reactions import watched
from tests.reactions.scenario import planted
from tests.reactions.watched import Trouble, Watched

TEXT = """
reaction: reads
target: {kind: directory, match: "src"}
on: [{files: ["src/**"]}]
actions: [{name: t, telemetry.emit: {name: n}}]
"""


def seen_in(folder: Path, workspace: str) -> tuple[Tree, dict[str, Any]]:
    """The tree after one edit in a real folder, and the trigger that it gives."""
    folder.mkdir(parents=True)
    here = Watched(folder)
    here.write("src/a.py", "one")
    here.write("src/deep/b.py", "two")
    here.begin()
    here.write("src/a.py", "three")
    here.hint("src/a.py")
    (batch,) = here.settle()
    given = {"before": batch.before, "after": batch.after, "stamps": Stamps()}
    definition = load(TEXT, f"{workspace}.yaml")
    seen = Observation(
        world_id="w",
        workspace_id=workspace,
        n=2,
        observed_at=0,
        definitions=[definition],
        **given,  # type: ignore[arg-type]
    )
    (trigger,) = derive(seen).triggers
    return batch.after, trigger


def s51(root: Path) -> None:
    """Two folders of equal content at different depths, as two workspaces."""
    one, first = seen_in(root / "one", "ws-1")
    other, second = seen_in(root / "far" / "away" / "two", "ws-2")
    assert tree_id(one) == tree_id(other)
    for equal in ("definition_hash", "input_digest", "tree_before", "tree_after", "changes"):
        assert first[equal] == second[equal], equal
    assert first["workspace_id"] != second["workspace_id"]
    assert first["target"]["target_id"] != second["target"]["target_id"]
    nodes = [
        ids.node_id(trigger["workspace_id"], path, tree[path].kind, tree[path].identity)
        for tree, trigger in ((one, first), (other, second))
        for path in (b"src", b"src/a.py")
    ]
    assert len(set(nodes)) == 4


@pytest.mark.clause("F-23")
def test_s51_the_same_tree_in_two_places(tmp_path: Path) -> None:
    """S51: equal tree id, definition hash and input digest; other workspace, target, node ids."""
    s51(tmp_path)


class Placed(Trouble):
    """A planted defect: the place of a file is in the hash of its content."""

    def content(self, path: bytes, entry: Entry) -> bytes | None:
        found = super().content(path, entry)
        return None if found is None else sha256(self._root + found).digest()


DEFECTS: list[tuple[Any, str, Callable[..., Any]]] = [
    (watched, "Trouble", Placed),
    (ids, "locator", lambda _workspace, path: [path]),
]


@pytest.mark.parametrize(("module", "name", "defect"), DEFECTS, ids=["place", "locator"])
def test_s51_a_place_in_a_content_or_none_in_a_node_is_found_out(
    tmp_path: Path, module: Any, name: str, defect: Callable[..., Any]
) -> None:
    """RX-01: ids of content that hold a place, and node ids that hold none, both fail S51."""
    with planted(module, name, defect), pytest.raises(AssertionError):
        s51(tmp_path)
