"""Annotations to schemas to bytes and back, over drawn values (AU-02)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import BadDefinition
from tallystick.modules.source import bundle_of
from tallystick.testing.sources import built
from tallystick.testing.strategies import strategy
from tallystick.testing.world import TestWorld
from tallystick.values import canon
from tallystick.workflow.codec import codec_of
from tests.workflow.apps import HELLO
from tests.workflow.names import loaded, names_of
from tests.workflow.test_kit import TYPES

READY = built(TYPES.replace('tags=("eu",)', "tags=()"))


@pytest.mark.clause("K-03", "K-34")
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_every_drawn_value_comes_back(data) -> None:
    """AU-02: type to schema to bytes to an equal value, in a world and by the codec alone."""
    world = TestWorld(READY, twice=False)
    app = names_of(world)
    value = data.draw(strategy(app.All))
    codec = codec_of(app.All)
    schema = world.driver.world.active.catalogue.schemas["t/All@1"]
    written = schema.admit(codec.plain(value)).bytes
    again = codec.value(schema.plain(written))
    assert again == value
    assert schema.admit(codec.plain(again)).bytes == written
    world.send(value)
    assert world.cell(app.keeps, value.key).state == value
    assert canon.decode(canon.encode(canon.decode(written))) == canon.decode(written)


REFUSED = [
    ("float", "/x"),
    ("Any", "/x"),
    ("list", "/x"),
    ("dict", "/x"),
    ("frozenset", "/x"),
    ("object", "/x"),
    ("int | str", "/x"),
    ("list[float]", "/x"),
    ("dict[str, Any]", "/x"),
    ('list["Guest"]', "/x"),
]


@pytest.mark.parametrize(("annotation", "path"), REFUSED)
def test_what_has_no_canonical_form_is_refused(annotation: str, path: str) -> None:
    """AU-02: floats, Any, bare containers, recursion, unions of non-records: field and hint."""
    source = HELLO.replace("visits: int = 0", f"visits: int = 0\n    x: {annotation} = None")
    source = source.replace("from tallystick", "from typing import Any\nfrom tallystick", 1)
    with pytest.raises(BadDefinition) as caught:
        bundle_of({"app.py": source.encode()})
    assert caught.value.code == "schema.unsupported"
    assert str(caught.value.where["path"]).startswith(path)
    assert caught.value.hint


ROUTED = """
from tallystick import Bundle, Ctx, On, Record
app = Bundle("t")
class Open(Record): key: str
class Add(Record): key: str; n: int
class Sum(Record): total: int
@app.workflow(on=[On(Open, key="key", create=True), On(Add, key="key", create=False)],
              lifecycle="entity")
class adder:
    @staticmethod
    def init(ctx: Ctx, event: Open | Add) -> Sum:
        return Sum(total=100)
    @staticmethod
    def tick(state: Sum | None, event: Open | Add, ctx: Ctx) -> Sum:
        return state.replace(total=state.total + (event.n if isinstance(event, Add) else 0))
"""


@pytest.mark.clause("X-01")
def test_subscriptions_say_who_may_begin_a_cell() -> None:
    """AU-02: `create` of each subscription and `init` of the class are kept in the definition."""
    world, app = loaded(ROUTED)
    world.send(app.Add(key="a", n=1))
    assert not world.cells()
    world.send(app.Open(key="a")).send(app.Add(key="a", n=2))
    assert world.cell(app.adder, "a").state.total == 102
    routes = bundle_of({"app.py": ROUTED.encode()}).manifest["routing"]["subscriptions"]
    assert [route.get("create_if_missing", True) for route in routes] == [True, False]
    world.assert_replays()
