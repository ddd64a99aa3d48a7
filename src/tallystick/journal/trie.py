"""What a snapshot cannot be opened without: its nodes, states and mail (K-43)."""

from __future__ import annotations

from collections.abc import Container, Iterator

from tallystick.kernel.index import EMPTY, Blobs, Branch, parse_node
from tallystick.kernel.leaves import beside_of, read_blob
from tallystick.values import large


def missing_below(
    document: bytes, blobs: Blobs, present: Container[bytes], seen: dict[bytes, None] | None = None
) -> Iterator[bytes]:
    """The digests below a snapshot's document that are not there; `seen` is not looked at again."""
    seen = {} if seen is None else seen
    raw = large.decode(read_blob(blobs, document))
    for name, root in raw["roots"].items():
        yield from _below(root, name.startswith("cell:"), blobs, (present, seen))


def _below(
    digest: bytes, cells: bool, blobs: Blobs, known: tuple[Container[bytes], dict[bytes, None]]
) -> Iterator[bytes]:
    present, seen = known
    if digest == EMPTY or digest in seen:
        return
    seen[digest] = None
    if digest not in present:
        yield digest
        return
    node = parse_node(read_blob(blobs, digest))
    if isinstance(node, Branch):
        for way in range(16):
            kid = node.kid(way)
            if kid is not None:
                yield from _below(kid[:32], cells, blobs, known)
    elif cells:
        for name in beside_of(node.value):
            if name not in present and name not in seen:
                seen[name] = None
                yield name
