"""Planted defects: each breaks the product in one way, and the simulation must find it.

A simulation that finds nothing proves nothing until it is shown to find something.
Every defect is a context manager that puts the product back when it is left.
"""

from __future__ import annotations

from tests.simulation.planted import effects, fold, nets, node, rules, watch

PARTS = (node, fold, effects, nets, watch, rules)
DEFECTS = {name: plant for part in PARTS for name, plant in part.DEFECTS.items()}
