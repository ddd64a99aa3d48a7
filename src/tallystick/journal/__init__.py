"""Journal: where frames become durable.

Owns: the append-only store of frames, blobs and snapshots, and its contract.
May import: `kernel`, `model`, `values`, `errors`.
Refuses: to reorder, rewrite or drop; a frame is there whole or not at all.
"""
