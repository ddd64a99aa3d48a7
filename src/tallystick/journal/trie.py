"""What a snapshot cannot be opened without: its nodes, states and mail (K-43)."""

from __future__ import annotations

from collections.abc import Container, Iterator

from tallystick.kernel.index import EMPTY, Blobs, Branch, name_of, read_node
from tallystick.kernel.leaves import beside_of, read_blob
from tallystick.kernel.snapshot import tops_of
from tallystick.values import large


def missing_below(
    document: bytes, blobs: Blobs, present: Container[bytes], seen: dict[bytes, None] | None = None
) -> Iterator[bytes]:
    """The names below a snapshot's document that are not there; `seen` is not looked at again."""
    seen = {} if seen is None else seen
    raw = large.decode(read_blob(blobs, document))
    for name, top in tops_of(raw).items():
        # What was taken from elsewhere lies under its digest.
        found = top if top in present else top[:32]
        yield from _below(found, name.startswith("cell:"), blobs, (present, seen))


def _below(
    name: bytes, cells: bool, blobs: Blobs, known: tuple[Container[bytes], dict[bytes, None]]
) -> Iterator[bytes]:
    present, seen = known
    if name == EMPTY or name in seen:
        return
    seen[name] = None
    if name not in present:
        yield name
        return
    node = read_node(blobs, name)
    if isinstance(node, Branch):
        for way in range(16):
            kid = node.kid(way)
            if kid is not None:
                yield from _below(name_of(kid), cells, blobs, known)
    elif cells:
        for beside in beside_of(node.value):
            if beside not in present and beside not in seen:
                seen[beside] = None
                yield beside
