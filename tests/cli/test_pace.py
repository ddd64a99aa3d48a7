"""The pace of a machine, and what is held against it (ADR 0026)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.cli import pace
from tallystick.cli.bench import below
from tallystick.cli.measure import measure
from tallystick.cli.pace import BEAT_US, SLOWEST, Pace, cpu_of, pace_of

ROWS = [{"name": "batch", "value": 5000.0, "unit": "events/s"}]


def test_a_probe_says_how_fast_processor_and_disk_are(tmp_path: Path):
    """RL-20: both are measured, in a folder that is left empty."""
    found = pace_of(tmp_path, seconds=0.1)
    assert found.cpu > 0
    assert found.sync > 0
    assert list(tmp_path.iterdir()) == []


def test_half_the_speed_is_half_the_pace():
    """RL-20: the median of the beats counts, so one that was disturbed does not."""
    assert cpu_of([BEAT_US * 2, BEAT_US * 2, BEAT_US * 50]) == 0.5


@pytest.mark.parametrize(
    ("cpu", "sync", "least"),
    [(0.5, 2.0, 0.5), (2.0, 0.6, 0.6), (3.0, 2.0, 1.0), (0.9, 0.01, SLOWEST)],
)
def test_the_slower_of_both_scales_a_floor(cpu: float, sync: float, least: float):
    """RL-20: floors never rise, and do not fall below a quarter of what they are."""
    assert Pace(cpu, sync).least == least


def test_a_floor_is_scaled_by_the_pace():
    """RL-20: 5,000 of 8,000 is enough at half the pace, and too little at the whole one."""
    assert below(ROWS, {"batch": 8000}, Pace(0.5, 1.0)) == []
    (line,) = below(ROWS, {"batch": 8000}, Pace(1.0, 1.0))
    assert "is below 8,000" in line


def test_a_beat_holds_nothing_of_ours():
    """ADR 0026: slow code of ours must not make the machine look slow."""
    source = Path(str(pace.__file__)).read_text("utf-8")
    assert "tallystick" not in source


def test_admission_is_told_at_both_paces(tmp_path: Path):
    """AG-14: the figure here, and what it is at the pace of one, taken between the judgements."""
    (row,) = measure(tmp_path, ("admit",), quick=True, say=lambda _line: None)
    assert row["value"] > 0
    assert row["paced"] > 0
    assert row["unit"] == "us"
