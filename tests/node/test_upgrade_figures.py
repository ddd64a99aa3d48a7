"""Figures of upgrades on a small count; `tally bench prove` and `bench fork` take the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.cli import measure_upgrade


@pytest.mark.clause("X-19")
def test_every_parked_cell_has_its_verdict(tmp_path: Path) -> None:
    """AG-26: parked cells of eight ticks each, under other code that does the same: each is asked,
    and each of its ticks is run again in the processes of the proof.
    `tally bench prove` measures it with 100,000.
    """
    found = measure_upgrade.proved(tmp_path, 40)
    assert (found.cells, found.ticks) == (40, 40 * measure_upgrade.TICKS)
    assert found.seconds > 0


@pytest.mark.clause("X-08")
def test_a_fork_writes_little(tmp_path: Path) -> None:
    """AG-30: a fork of many cells writes at most 64 KiB, whatever their number.
    `tally bench fork` measures it with a million.
    """
    sizes = [measure_upgrade.forked(tmp_path / str(n), n).bytes for n in (20, 2000)]
    assert max(sizes) <= 64 * 1024
