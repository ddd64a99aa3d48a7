"""The tree of a workspace: portable ids, comparing, spelling (08 section 4; F-23)."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import JournalCorrupt, Rejected
from tallystick.reactions import ids, tree
from tallystick.reactions.tree import Change, TreeNode
from tallystick.values import canon


def file(text: bytes, kind: str = "f") -> TreeNode:
    return TreeNode(kind, hashlib.sha256(text).digest(), len(text))


NAMES = st.binary(min_size=1, max_size=3).filter(lambda raw: b"/" not in raw and b"\0" not in raw)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
NODES = st.one_of(
    st.binary(max_size=2).map(file),
    st.binary(max_size=2).map(lambda text: file(text, "x")),
    st.integers(1 << 28, 1 << 40).map(lambda size: TreeNode("b", None, size)),
    st.sampled_from([TreeNode("s", None), TreeNode("u", None)]),
)


def leaves_of(given_: dict[bytes, TreeNode]) -> dict[bytes, TreeNode]:
    """Drop leaves that stand below another leaf: no disk holds both."""
    return {
        path: node
        for path, node in given_.items()
        if not any(above in given_ for above in tree.ancestors(path))
    }


TREES = st.dictionaries(PATHS, NODES, max_size=8).map(leaves_of)


@pytest.mark.clause("F-23")
def test_ids_are_those_of_the_design() -> None:
    """R1, R2: contents hash as sha256sum says, listings as H says, and golden bytes hold."""
    made = tree.make({b"a.txt": file(b"hello\n"), b"sub/b": file(b"x", "x")})
    below = ids.H("tree@1", entries=[[b"b", "x", hashlib.sha256(b"x").digest()]])
    rows = [[b"a.txt", "f", hashlib.sha256(b"hello\n").digest()], [b"sub", "d", below]]
    assert tree.tree_id(made, b"sub") == below
    assert tree.tree_id(made) == ids.H("tree@1", entries=rows)
    assert ids.text(tree.tree_id(made)) == (
        "sha256:1b72321e0d76c7d19608b006969a15109481d92e87ec53c308c4f72f0426daf0"
    )
    assert ids.content_id(b"hello\n").hex() == (
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    )


@pytest.mark.clause("F-23")
def test_s51_the_same_tree_elsewhere_has_the_same_ids() -> None:
    """S51: equal content gives equal tree ids; node and target ids hold the workspace."""
    one = tree.make({b"a": file(b"1"), b"d/e": file(b"2")})
    other = tree.make({b"d/e": file(b"2"), b"a": file(b"1")})
    assert tree.tree_id(one) == tree.tree_id(other)
    node = one[b"a"]
    assert ids.node_id("w1", b"a", "f", node.identity) != ids.node_id(
        "w2", b"a", "f", node.identity
    )
    assert ids.target_id("r", "file", "w1", b"a") != ids.target_id("r", "file", "w2", b"a")


@given(TREES)
def test_a_listing_is_canonical(leaves: dict[bytes, TreeNode]) -> None:
    """R1: the joined pieces equal the canonical encoding of the same structure."""
    data = tree.listing(leaves.items())
    rows = [[name, node.kind, node.identity] for name, node in sorted(leaves.items())]
    assert data == canon.encode({"$type": "tree@1", "entries": rows})
    assert canon.decode(data)["entries"] == rows


@given(TREES, TREES)
@settings(max_examples=60)
def test_changing_a_tree_equals_making_it(
    first: dict[bytes, TreeNode], second: dict[bytes, TreeNode]
) -> None:
    """F-23: the next tree by its changes is the tree made from its leaves."""
    before, after = tree.make(first), tree.make(second)
    changed: dict[bytes, TreeNode | None] = dict.fromkeys(
        path for path in before if path not in after
    )
    changed |= {path: node for path, node in after.items() if path}
    assert tree.with_changes(before, changed) == after


@given(TREES)
def test_a_tree_is_read_back_from_its_listings(leaves: dict[bytes, TreeNode]) -> None:
    """F-23: with the listings under their hashes, the id of the root gives the whole tree."""
    made = tree.make(leaves)
    kept = tree.listings(made, {})
    read = tree.load(tree.tree_id(made), kept.get)
    assert {p: (n.kind, n.identity) for p, n in read.items()} == {
        p: (n.kind, n.identity) for p, n in made.items()
    }


def test_a_damaged_listing_is_refused() -> None:
    """F-19: a missing or changed listing is named, not believed."""
    made = tree.make({b"d/a": file(b"1")})
    kept = tree.listings(made, tree.EMPTY)
    below = tree.tree_id(made, b"d")
    for wrong in (None, kept[below][:-1] + b"\0", canon.encode({"$type": "other@1"})):
        with pytest.raises(JournalCorrupt) as caught:
            tree.load(tree.tree_id(made), lambda h, w=wrong: w if h == below else kept[h])  # type: ignore[misc]
        assert caught.value.code == "reaction.tree_damaged"


def test_an_empty_directory_counts_in_the_id_only() -> None:
    """R1: mkdir moves the tree id and is no change of a leaf."""
    before = tree.make({b"a": file(b"1")})
    after = tree.with_changes(before, {b"new": TreeNode("d", None)})
    assert tree.tree_id(before) != tree.tree_id(after)
    assert tree.compare(before, after) == []


@pytest.mark.clause("F-01")
def test_changes_have_their_words() -> None:
    """08 section 6: created, modified, removed, type_changed, with both nodes."""
    one, two = file(b"1"), file(b"2")
    link = TreeNode("l", ids.content_id(b"a"), 1)
    before = tree.make({b"m": one, b"gone/x": one, b"t": one, b"same": one, b"p": one})
    after = tree.make({b"m": two, b"new": two, b"t": link, b"same": one, b"p": file(b"1", "x")})
    assert tree.compare(before, after) == [
        Change(b"gone/x", "removed", one, None),
        Change(b"m", "modified", one, two),
        Change(b"new", "created", None, two),
        Change(b"p", "modified", one, file(b"1", "x")),
        Change(b"t", "type_changed", one, link),
    ]


def test_a_directory_in_the_place_of_a_file_is_a_change_of_type() -> None:
    """08 section 6: the path changed its type, and its leaves came or went."""
    one = file(b"1")
    before, after = tree.make({b"t": one}), tree.make({b"t/a": one})
    assert [(c.path, c.change) for c in tree.compare(before, after)] == [
        (b"t", "type_changed"),
        (b"t/a", "created"),
    ]
    assert [(c.path, c.change) for c in tree.compare(after, before)] == [
        (b"t", "type_changed"),
        (b"t/a", "removed"),
    ]


@pytest.mark.clause("F-12")
def test_s23_on_a_folding_disk_another_case_is_a_rename() -> None:
    """S23: README to readme is one `renamed` where names fold; elsewhere both are files."""
    before, after = tree.make({b"README": file(b"1")}), tree.make({b"readme": file(b"1")})
    (change,) = tree.compare(before, after, folding=True)
    assert (change.path, change.change, change.old) == (b"readme", "renamed", b"README")
    assert [c.change for c in tree.compare(before, after)] == ["removed", "created"]


@pytest.mark.clause("F-23")
def test_s24_names_that_differ_by_normalisation_are_two() -> None:
    """S24: both are nodes, and the risk is named."""
    nfc, nfd = "caf\u00e9".encode(), "cafe\u0301".encode()
    made = tree.make({nfc: file(b"1"), nfd: file(b"2"), b"plain": file(b"3")})
    assert len(made) == 4
    assert tree.collisions(made) == [sorted([nfc, nfd])]
    assert tree.collisions(tree.make({b"A": file(b"1"), b"a": file(b"1")})) == [[b"A", b"a"]]


@given(st.binary(max_size=12))
def test_every_path_is_shown_and_found_again(path: bytes) -> None:
    """R3: shown text is printable, goes through JSON, and names the same bytes."""
    text = tree.shown(path)
    assert text.isprintable()
    assert tree.unshown(text) == path


@pytest.mark.clause("F-23")
def test_s22_a_name_that_is_no_text_is_shown_escaped() -> None:
    r"""S22: b"bad\xff.txt" is shown as bad\xff.txt; a backslash of a name is told apart."""
    assert tree.shown(b"bad\xff.txt") == "bad\\xff.txt"
    assert tree.shown(b"bad\\xff.txt") == "bad\\x5cxff.txt"
    assert tree.shown("\u00e9\u202e".encode()) == "\u00e9\\xe2\\x80\\xae"
    for wrong in ("a\\", "a\\n", "a\\xg0", "a\\x0"):
        with pytest.raises(Rejected) as caught:
            tree.unshown(wrong)
        assert caught.value.code == "reaction.bad_path"
