"""`tally lint`: findings with exit codes, and what workflows ask for (AU-15, AU-16)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.cli.lint import run
from tests.cli.runs import tally
from tests.modules.mistakes import MISTAKES
from tests.workflow.apps import ORDER
from tests.workflow.test_flows import SAGA


def lint_at(path: Path, **flags: bool):
    """Run the command on one file."""
    flags = {"strict": False, "check": False, "accept": False, "fix": False} | flags
    return run(None, {"paths": [str(path)], **flags})


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
        assert done.value["inferred"][0]["caps"] == ["effect", "timer"]


BARE = """
from tallystick import Bundle, Ctx, Effect, Record
app = Bundle("t")
class Go(Record): key: str
class Got(Record): n: int
class Work(Effect[Got], executor="work"): n: int
class Kept(Record): n: int = 0
@app.workflow{options}
def flow(state: Kept | None, event: Go, ctx: Ctx) -> Kept | None:
    ctx.effect(Work(n=1), key="é")  # kept as it is
    ctx.timer("1h")
    ctx.read(other, "a")
    return state
@app.workflow(key="key", lifecycle="entity")
def other(state: Kept | None, event: Go, ctx: Ctx) -> Kept | None:
    return state or Kept()
"""


@pytest.mark.clause("K-05")
@pytest.mark.parametrize(
    "options",
    ["", "()", '(key="key")', '(key="key", effects=[])', '(effects=[Work], key="key")'],
)
def test_fix_declares_what_is_asked_for(tmp_path: Path, options: str) -> None:
    """AU-15: `--fix` cures TL201 and TL203 whatever the decorator looks like, and only that."""
    path = tmp_path / "app.py"
    path.write_text(BARE.replace("{options}", options), encoding="utf-8")
    codes = [each["code"] for each in lint_at(path).value["findings"]]
    assert {"TL201", "TL203"} <= set(codes)
    done = lint_at(path, fix=True)
    assert not {"TL201", "TL203"} & {each["code"] for each in done.value["findings"]}
    text = path.read_text("utf-8")
    assert "Work, Timer" in text or "Timer, Work" in text
    assert text.splitlines()[1].startswith("from tallystick import Bundle, Ctx, Effect, Record, T")
    assert '    ctx.effect(Work(n=1), key="é")  # kept as it is' in text
    assert lint_at(path, fix=True).value == done.value
    assert path.read_text("utf-8") == text


GREETS = """
from tallystick import Bundle, Ctx, Record
app = Bundle("t")
class Greet(Record): name: str; times: int = 1
class Guest(Record): visits: int = 0
@app.workflow(key="name", lifecycle="entity")
def greeter(state: Guest | None, event: Greet, ctx: Ctx) -> Guest | None:
    return state or Guest()
"""
NEWER = GREETS.replace(
    "class Greet(Record): name: str; times: int = 1",
    "class Greet(Record, version=2): name: str; often: bool",
)
UPCAST = """
class Old(Record, name="t/Greet@1"): name: str; times: int = 1
@app.upcast(Old, Greet)
def newer(old: Old) -> Greet:
    return Greet(name=old.name, often=old.times > 1)
"""


@pytest.mark.clause("X-20")
@pytest.mark.parametrize(
    ("source", "found"),
    [
        (GREETS, []),
        (GREETS.replace("int = 1", "int = 1; note: str | None = None"), []),
        (GREETS.replace("times: int = 1", "times: str"), ["t/Greet@1 no longer"]),
        (NEWER, ["nothing reads t/Greet@1"]),
        (NEWER + UPCAST, []),
    ],
)
def test_a_schema_that_forgets_is_told(tmp_path: Path, source: str, found: list[str]) -> None:
    """AU-15: TL502 for what old values no longer fit; additive changes and upcasts are fine."""
    path = tmp_path / "app.py"
    path.write_text(GREETS)
    assert lint_at(path, accept=True).code == 0
    path.write_text(source)
    findings = lint_at(path, check=True).value["findings"]
    spoken = [each for each in findings if each["code"] == "TL502"]
    assert [each["message"][: len(text)] for each, text in zip(spoken, found, strict=True)] == found
    assert all(each["line"] == 4 and each["level"] == "warning" for each in spoken)


def test_a_finding_is_one_line(tmp_path: Path) -> None:
    """AU-15: file, line, code, what and what to do stand in one line: editors read it."""
    path = tmp_path / "app.py"
    path.write_bytes(MISTAKES["state of anything"].source)
    done = tally("lint", str(path))
    assert done.code == 2
    said = "app.py:6: TL302 Guest.visits: object has no canonical form"
    assert done.out.splitlines() == [f"{said} (use Decimal, or Json for free-form data)"]
