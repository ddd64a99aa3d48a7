"""Testing: what the project ships to its users for testing, and tests itself with.

Owns: the deterministic simulator, its checkers and its controls.
May import: `node` and everything below it.
Refuses: real time, real chance and real input or output; a seed is the whole input.
"""
