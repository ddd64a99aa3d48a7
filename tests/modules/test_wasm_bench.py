"""K4 runs and says what it promises; whether the figures are good is not for tests."""

from __future__ import annotations

from bench.wasm import GOALS, rate, trap_growth


def test_k4_measures_both_kinds_of_instance() -> None:
    """AU-22: fresh and pooled have a rate, and traps give their memory back (small counts here).

    The design's 100,000 traps are the default of `python bench/wasm.py`.
    """
    assert rate("wat", 20, pooled=False) > 0
    assert rate("wat", 20, pooled=True) > 0
    assert trap_growth(2000) <= GOALS["trap_mb"]
