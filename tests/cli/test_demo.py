"""`tally demo`: real processes, a failing bank, kill -9, and equal roots (ST-11)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.demo import ORDERS, Story
from tallystick.cli.shape import misfit
from tallystick.cli.stage import Stage
from tallystick.cli.table import VERBS
from tallystick.errors import Unavailable
from tests.cli.runs import tally


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
@pytest.mark.clause("X-07", "X-14", "K-19", "K-25", "K-27")
def test_nothing_is_lost_and_nothing_happens_twice(stage: Stage):
    """ST-11, ND-01: each order charged once, one refusal, one timer, equal roots after kill -9."""
    said: list[str] = []
    told = Story(stage, said.append).tell()
    assert misfit(next(verb.shape for verb in VERBS if verb.words == "demo"), told) is None
    assert told["equal"] is True
    assert told["root"] == told["replayed_root"]
    assert [row["what"] for row in told["bank"]] == ["refused", "charged", "charged"]
    assert sorted(row["order"] for row in told["bank"][1:]) == [order for order, _ in ORDERS]
    steps = [row["step"] for row in told["trace"]["rows"]]
    first = [steps.index(step) for step in ("admitted", "ticked", "asked", "settled", "continued")]
    assert first == sorted(first), "K-25: event, tick, effect, receipt, continuation, in order"
    behind = [row["seq"] for row in told["trace"]["rows"] if row["seq"] > told["killed_at"]]
    assert behind, "the trace goes on behind the kill"
    assert any("kill -9" in line for line in said)


def test_a_story_without_equal_roots_ends_with_4(monkeypatch: pytest.MonkeyPatch):
    """ST-11 control: a difference is an exit code and two words, not a line among others."""
    told: dict[str, Any] = {
        "equal": False,
        "ticks": 1,
        "root": "sha256:" + "0" * 64,
        "replayed_root": "sha256:" + "1" * 64,
        "bank": [],
        "trace": {"rows": [], "more": 0, "summary": {"waiting": []}},
    }
    monkeypatch.setattr(Story, "tell", lambda _story: told)
    done = tally("demo")
    assert done.code == 4
    assert done.out.splitlines()[-1] == "NOT EQUAL"


def test_a_node_that_does_not_start_is_told(stage: Stage):
    """ST-11: the end of its log is in the error; nobody waits for a minute."""
    stage.prepare(refusals=0)
    (stage.folder / "app.py").write_text("import os\n")
    with pytest.raises(Unavailable) as caught:
        stage.start()
    assert caught.value.code == "demo.no_node"
    assert "lane.refused" in caught.value.where["log"]
