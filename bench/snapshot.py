"""KN-12: what a snapshot of few dirty cells writes, against a full materialisation, in nodes.

The store is the kernel's own; its blobs are counted and kept in memory, so a million cells want
about 1 GB.
Prints JSON; exit 1 when the share is over the bound.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from hashlib import sha256
from time import perf_counter
from typing import Any

from tallystick.kernel.index import NOWHERE, Nodes
from tallystick.kernel.store import Store
from tallystick.values import canon

BOUND = 0.01


class Shelf:
    """Blobs in memory, counted when they are new."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}

    def get(self, digest: bytes) -> bytes | None:
        return self.held.get(digest)

    def put(self, digest: bytes, data: bytes) -> None:
        self.held[digest] = data

    def place(self) -> bytes:
        return NOWHERE

    def add(self, nodes: dict[bytes, bytes]) -> int:
        before = len(self.held)
        self.held.update(nodes)
        return len(self.held) - before


def leaf(number: int, seq: int) -> bytes:
    """A leaf of about the size that a resting cell has."""
    return canon.encode(
        {
            "key": canon.encode(f"o-{number}"),
            "state_hash": sha256(b"%d %d" % (number, seq)).digest(),
            "size": 120,
            "status": "running",
            "born_seq": number,
            "last_seq": number + seq,
        }
    )


def materialise(shelf: Shelf, store: Store[bytes], seq: int) -> tuple[int, float]:
    """Take and promote a snapshot: nodes that were new, and seconds."""
    begin = perf_counter()
    made = store.written()
    paths = list(store.delta)
    written = shelf.add(made.nodes)
    store.mark(seq)
    store.promote(made.top, paths, seq)
    return written, perf_counter() - begin


def measure(cells: int, dirty: int) -> dict[str, Any]:
    shelf = Shelf()
    store: Store[bytes] = Store(Nodes(shelf), lambda value, _beside: value, lambda value: value)
    paths = [sha256(b"%d" % i).digest() for i in range(cells)]
    for i, path in enumerate(paths):
        store.put(path, leaf(i, 0))
    full, full_s = materialise(shelf, store, 1)
    step = max(cells // dirty, 1)
    for i in range(0, step * dirty, step):
        store.put(paths[i], leaf(i, 1))
    part, part_s = materialise(shelf, store, 2)
    return {
        "cells": cells,
        "dirty": dirty,
        "full_nodes": full,
        "full_s": round(full_s, 3),
        "dirty_nodes": part,
        "dirty_s": round(part_s, 4),
        "share": round(part / full, 5),
        "bound": BOUND,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--dirty", type=int, default=1_000)
    given = parser.parse_args()
    found = measure(given.cells, given.dirty)
    print(json.dumps(found))
    return 0 if found["share"] < BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
