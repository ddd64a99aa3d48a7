"""Enough, not enough, no such shelf; and what happens without the declaration."""

from pathlib import Path

import app as example
import pytest
from app import Delivered, Reserve, Reserved, app, reserve
from tallystick.testing import TestWorld


@pytest.mark.parametrize(("sku", "n", "enough"), [("a", 3, True), ("a", 4, False), ("b", 1, False)])
def test_reading_decides(sku, n, enough):
    world = TestWorld(app).send(Delivered(sku="a", n=3))
    world.send(Reserve(order_id="o", sku=sku, n=n))
    assert world.events(Reserved) == [Reserved(order_id="o", enough=enough)]
    world.assert_replays()


def test_undeclared_reads_are_denied():
    source = Path(example.__file__).read_text("utf-8")
    undeclared = source.replace("reads=[shelf]", 'reads=["stock/other@1"]').replace(
        "def shelf(",
        "def other(s: Shelf | None, event: Delivered, ctx: Ctx) -> Shelf:\n"
        '    return s or Shelf(n=0)\n\n\n@app.workflow(key="sku", lifecycle="entity")\ndef shelf(',
    )
    world = TestWorld(undeclared)
    names = world.app.workflows["stock/reserve@1"].tick.__globals__
    world.send(names["Reserve"](order_id="o", sku="a", n=1))
    assert world.cell("stock/reserve@1", "o").status == "failed"


def test_the_cell_is_named():
    assert TestWorld(app).cell(reserve, "nobody") is None
