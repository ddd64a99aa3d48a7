"""Acceptance in small: each case against a real node, and its control on a planted defect.

`scripts/accept NN --full` runs one at the size of the design and writes its report; it runs the
control too. The suite runs what fits into a minute, and with TALLY_ACCEPT=all everything in small.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acceptance.case import Bench, wrong
from tests.acceptance.cases import CASES

SEED = 1
ALL = os.environ.get("TALLY_ACCEPT") == "all"
SOUND = [number for number, case in CASES.items() if ALL or case.suite != "none"]
PLANTED = [number for number, case in CASES.items() if ALL or case.suite == "both"]


@pytest.mark.slow
@pytest.mark.parametrize("number", SOUND)
def test_a_sound_node_passes(number: str, tmp_path: Path) -> None:
    """10 section 8: the case finds nothing wrong with the product."""
    case = CASES[number]
    if not case.possible():
        pytest.skip("needs rights or tools that are not here")
    faults, figures = wrong(case, Bench(tmp_path, SEED, case.small))
    assert faults == [], figures


@pytest.mark.slow
@pytest.mark.parametrize("number", PLANTED)
def test_a_planted_defect_is_found(number: str, tmp_path: Path) -> None:
    """10 section 8: no control, no credit: the same case finds its planted defect."""
    case = CASES[number]
    if not case.possible():
        pytest.skip("needs rights or tools that are not here")
    bench = Bench(tmp_path, SEED, case.control or case.small, case.planted)
    faults, figures = wrong(case, bench)
    assert faults, figures
