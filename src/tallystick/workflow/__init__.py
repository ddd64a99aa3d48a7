"""Workflow: the kit that people write workflows with, in Python.

Owns: records, effects and outcomes as classes, the bundle that collects definitions, the context
of a reducer, the traps and the loop of async workflows, and the lint over all of it.
May import: `model`, `values`, `errors`.
Refuses: a type without a canonical form, and any look at the clock, chance, disk or wire.
"""
