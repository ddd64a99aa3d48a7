"""Kernel: the pure machine.

Owns: submit, advance and fold; the world they move; index, snapshot, replay.
May import: `authority`, `model`, `values`, `errors`.
Refuses: clock, chance, disk, wire and threads; module code reaches it only as an argument.
"""
