"""`tally lint`: findings with exit codes, and what workflows ask for (AU-15, AU-16)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.cli.lint import run
from tests.workflow.apps import ORDER


@pytest.mark.clause("K-05")
@pytest.mark.parametrize(
    ("source", "strict", "code"),
    [
        (ORDER, True, 0),
        (ORDER.replace("effects=[Charge, Timer]", "effects=[Charge]"), False, 2),
        (ORDER.replace('key=f"charge/{o.retry.attempt}", ', ""), False, 0),
        (ORDER.replace('key=f"charge/{o.retry.attempt}", ', ""), True, 1),
    ],
)
def test_findings_decide_the_exit(tmp_path: Path, source: str, strict: bool, code: int) -> None:
    """AU-15: 2 on an error, 1 on a warning with `--strict`, else 0; the value is plain JSON."""
    (tmp_path / "app.py").write_text(source)
    done = run(None, {"paths": [str(tmp_path / "app.py")], "strict": strict})
    assert done.code == code
    json.dumps(done.value)
    if code != 2:
        assert done.value["inferred"][0]["effects"] == ["Charge", "Timer"]
