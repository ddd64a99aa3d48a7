"""The two programs as the documents print them, to the letter (AU-01).

`scripts/first_run` installs the wheel into a clean environment and times the way to a first cell.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.cli.sources import bundle_at
from tallystick.modules.lint import lint
from tallystick.testing.answers import ok, timeout
from tests.cli.runs import tally
from tests.workflow.names import loaded

PRINTED = Path(__file__).parent / "printed"
HELLO = (PRINTED / "hello.txt").read_text("utf-8")
ORDER = (PRINTED / "order.txt").read_text("utf-8")


@pytest.mark.clause("K-03")
@pytest.mark.parametrize(("source", "most"), [(HELLO, 18), (ORDER, 40)])
def test_the_printed_programs_are_short_and_clean(source: str, most: int) -> None:
    """AU-01: at most 18 and 40 lines, and lint has nothing to say."""
    assert len([line for line in source.splitlines() if line.strip()]) <= most
    assert lint({"app.py": source.encode()}) == []


@pytest.mark.clause("K-03")
def test_the_printed_hello_answers_to_the_printed_commands(tmp_path: Path) -> None:
    """AU-01: the bundle of the file, `tally send` and `tally cell show`, with an empty folder."""
    (tmp_path / "hello.py").write_text(HELLO)
    data = ("--data", str(tmp_path / ".tally"), "--json")
    made = tally("world", "create", "main", "--bundle", str(tmp_path / "hello.py"), *data)
    assert made.code == 0, made.err
    for _ in range(2):
        assert tally("send", "demo/Greet@1", '{"name":"Ada"}', *data).code == 0
    shown = tally("cell", "show", "demo/greeter@1", "Ada", *data)
    assert shown.value["state"] == {"visits": 2}
    assert tally("replay", "--verify", *data).value["ok"]
    assert bundle_at(tmp_path / "hello.py").manifest["workflows"]


@pytest.mark.clause("K-03", "K-47")
def test_the_printed_order_pays_and_gives_up() -> None:
    """AU-01: timeout, wait, payment; and four attempts that fail, told by their code."""
    world, app = loaded(ORDER)
    world.send(app.Placed(order_id="o1", cents=500)).settle(app.Charge, timeout())
    assert world.cell(app.orders, "o1").state.phase == "backoff"
    world.advance("2s").settle(app.Charge, ok(app.Charged(ref="r1")))
    assert world.events(app.Paid) == [app.Paid(order_id="o1", ref="r1")]
    world.send(app.Placed(order_id="o2", cents=1))
    for _ in range(4):
        world.settle(app.Charge, timeout()).advance("10s")
    assert world.cell(app.orders, "o2").state.phase == "refused"
    world.assert_replays()
