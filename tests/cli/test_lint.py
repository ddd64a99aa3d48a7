"""`tally lint`: findings with exit codes, and what workflows ask for (AU-15, AU-16)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.cli.lint import run
from tests.workflow.apps import ORDER
from tests.workflow.test_flows import SAGA


def lint_at(path: Path, **flags: bool):
    """Run the command on one file."""
    return run(
        None, {"paths": [str(path)], "strict": False, "check": False, "accept": False} | flags
    )


@pytest.mark.clause("K-20")
def test_the_fingerprint_is_accepted_and_checked(tmp_path: Path) -> None:
    """AU-17: layout and comments change nothing; other code is TL501 until it is accepted."""
    path = tmp_path / "app.py"
    path.write_text(SAGA)
    assert lint_at(path, check=True).code == 2
    assert lint_at(path, accept=True).code == 0
    path.write_text(SAGA.replace("done = []", "done = []  # what was done\n"))
    assert lint_at(path, check=True).code == 0
    path.write_text(SAGA.replace("act(1), act(2)", "act(2), act(1)"))
    changed = lint_at(path, check=True)
    assert changed.code == 2
    (finding,) = [each for each in changed.value["findings"] if each["code"] == "TL501"]
    assert "code, sites" in finding["message"]
    assert lint_at(path, accept=True).code == 0
    assert lint_at(path, check=True).code == 0


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
    done = lint_at(tmp_path / "app.py", strict=strict)
    assert done.code == code
    json.dumps(done.value)
    if code != 2:
        assert done.value["inferred"][0]["effects"] == ["Charge", "Timer"]
