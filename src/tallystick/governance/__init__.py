"""Governance: how rules and code change, and how another history is tried.

Owns: patches; the re-run of recorded inputs, and what is made of it: shadow, proof, plan, what-if.
May import: `kernel`, `modules`, `authority`, `model`, `values`, `errors`.
Refuses: clock, chance, disk, wire; the outside is never asked here, and no secret is resolved.
"""
