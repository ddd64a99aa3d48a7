"""Every corner of the kit: what it refuses, with which code, and what it lets through (AU-02)."""

# tidy: tables of what is refused and what is let through.
from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tallystick.errors import BadDefinition
from tallystick.model.abi import Came
from tallystick.model.records import Ticked, WorkflowFaulted
from tallystick.modules.source import bundle_of
from tallystick.values import canon
from tallystick.workflow.build import build
from tallystick.workflow.bundle import Bundle, spec_of
from tallystick.workflow.codec import AS_IS, codec_of, span_ns, time_ns
from tallystick.workflow.ctx import plain_of
from tallystick.workflow.deliver import outcome_of
from tallystick.workflow.outside import Secret, secrets_written
from tallystick.workflow.records import Record, RecordType
from tallystick.workflow.sets import ORDERED, TURNED
from tallystick.workflow.shape import shape_of
from tests.workflow.names import loaded

HEAD = """
from typing import Any
from tallystick import Bundle, Call, Ctx, Effect, Flow, On, Read, Record, call, spawn
app = Bundle("t")
class Go(Record): id: str
class More(Record): id: str; n: int = 0
class Seen(Record): n: int = 0
"""


# ---- records and sets -----------------------------------------------------------------------


class Point(Record):
    x: Any
    y: int = 7
    tags: Any = dataclasses.field(default_factory=list)


def test_a_record_is_a_value() -> None:
    """AU-02: equal by its fields, hashed by them, shown whole; it is never changed."""
    point = Point(x=1)
    assert point == Point(x=1, y=7, tags=[])
    assert point != Point(x=2)
    assert point != 1
    assert repr(point) == "Point(x=1, y=7, tags=[])"
    assert hash(Point(x=1, tags=())) == hash(Point(x=1, tags=()))
    with pytest.raises(AttributeError, match="cannot be taken away"):
        del point.x
    with pytest.raises(TypeError, match="Point needs x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="has no field z"):
        Point(x=1, z=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("default", [[], {}, set()])
def test_a_default_that_could_change_is_refused(default: Any) -> None:
    """AU-02: all records of a class would share it."""
    with pytest.raises(BadDefinition) as caught:
        RecordType("Bad", (Record,), {"__annotations__": {"a": "Any"}, "a": default})
    assert (caught.value.code, caught.value.where) == ("schema.unsupported", {"path": "/a"})


@pytest.mark.parametrize("base", [set, frozenset])
def test_sets_of_the_lane_have_one_order(base: type) -> None:
    """K-34: the natural order, or that of their texts; turned, the other way; still sets."""
    made, turned = ORDERED[base]([3, 1, 2]), TURNED[base]([3, 1, 2])
    assert (list(made), list(turned)) == ([1, 2, 3], [3, 2, 1])
    assert list(ORDERED[base](["b", 1])) == [1, "b"]
    shown = "{1, 2, 3}" if base is set else "frozenset({1, 2, 3})"
    assert (repr(made), repr(ORDERED[base]())) == (shown, f"{base.__name__}()")
    both = made | {9}
    assert isinstance({1}, ORDERED[set])
    assert list(both) == [1, 2, 3, 9]
    assert made.__and__([1]) is NotImplemented
    assert ORDERED[base][int] == base[int]  # type: ignore[index]


# ---- codecs ---------------------------------------------------------------------------------


@dataclasses.dataclass
class Plain:
    at: UUID
    n: int = 0


class Packed(msgspec.Struct):
    at: UUID


Alias = typing.NewType("Alias", UUID)


def test_codecs_of_everything_that_can_be_annotated() -> None:
    """K-34: aliases, dataclasses and structs; what is of another class goes on to be judged."""
    ident = UUID(int=5)
    assert codec_of(Alias).value(str(ident)) == ident
    assert codec_of(typing.Any) == AS_IS
    assert codec_of("Later") == AS_IS  # no type at all: the schema refuses it, not the codec
    assert codec_of(typing.Annotated[int, []]).value(3) == 3  # cannot be hashed
    for cls in (Plain, Packed):
        made: Any = cls(at=ident)
        plain = codec_of(cls).plain(made)
        assert plain["at"] == ident
        assert codec_of(cls).value({"at": str(ident)}) == made
        assert codec_of(cls).plain("another") == "another"
    assert codec_of(Point).plain("another") == "another"
    assert codec_of(Point | Plain).plain("another") == "another"


def test_an_alias_of_the_newer_syntax_means_its_value() -> None:
    """K-34: `type Ident = UUID` of Python 3.12, seen from 3.11 by its shape."""
    kind = type("TypeAliasType", (), {"__value__": UUID})
    assert codec_of(kind()).value(str(UUID(int=5))) == UUID(int=5)


def test_an_older_document_is_filled() -> None:
    """X-20: absent fields have their defaults, or null."""
    assert codec_of(Point).value({"x": 1}) == Point(x=1)
    assert codec_of(Point).value({}) == Point(x=None, y=7, tags=[])


@pytest.mark.parametrize("cls", [dt.datetime, dt.timedelta])
def test_times_of_the_clock_are_refused(cls: type) -> None:
    """K-28: time in the lane is an integer."""
    with pytest.raises(BadDefinition) as caught:
        codec_of(cls)
    assert "nanoseconds" in caught.value.hint


def test_spans_and_times_say_how_they_are_written() -> None:
    """AU-02: a text that is neither is refused with an example; no text goes on as it is."""
    assert (span_ns("2s"), span_ns(5), time_ns(6)) == (2_000_000_000, 5, 6)
    with pytest.raises(ValueError, match='write "30s"'):
        span_ns("soon")
    with pytest.raises(ValueError, match="2026-01-31"):
        time_ns("soon")


def test_plain_values_of_what_a_workflow_hands_over() -> None:
    """K-34: records, maps, lists and uuids, at any depth; secrets as references only."""
    given = {"a": [Point(x=1), (UUID(int=5),)]}
    assert plain_of(given) == {
        "a": [{"x": 1, "y": 7, "tags": []}, ["00000000-0000-0000-0000-000000000005"]]
    }
    written = secrets_written({"key": Secret(alias="k", version=2), "plain": "p", "n": 1})
    assert written["key"] == {"$tag": "secret", "$value": {"alias": "k", "version": 2}}
    assert written["plain"] == {"$tag": "literal", "$value": "p"}
    assert written["n"] == 1


# ---- bundles --------------------------------------------------------------------------------

REFUSED = {
    "namespace": ('Bundle("sys")', "def.bad_name"),
    "form": ('Bundle("No Name")', "def.bad_name"),
    "option": (
        "@app.workflow(keey='id')\ndef w(state: Seen | None, event: Go, ctx: Ctx) -> Seen: pass",
        "def.unknown_field",
    ),
    "twice": (
        (
            "def w(state: Seen | None, event: Go, ctx: Ctx) -> Seen: pass\n"
            "app.workflow(w)\napp.workflow(w)"
        ),
        "def.duplicate",
    ),
    "key": (
        "@app.workflow(key='idd')\ndef w(state: Seen | None, event: Go, ctx: Ctx) -> Seen: pass",
        "routing.key_path",
    ),
    "no tick": ("@app.workflow(key='id')\nclass w: pass", "workflow.bad_event"),
    "too few": (
        "@app.workflow(key='id')\ndef w(state: Seen | None, event: Go) -> Seen: pass",
        "workflow.bad_event",
    ),
    "bare": (
        "@app.workflow(key='id')\nasync def w(ctx: Flow, start) -> int: return 1",
        "workflow.bad_event",
    ),
    "no class": (
        (
            "@app.workflow(key='id')\n"
            "def w(state: Seen | None, event: Go | list[int], ctx: Ctx) -> Seen: pass"
        ),
        "workflow.bad_event",
    ),
    "an effect": (
        (
            "class Ask(Effect[Seen], executor='x'): a: int\n"
            "@app.workflow(key='id', effects=[Ask])\n"
            "def w(state: Seen | None, event: Go | Ask, ctx: Ctx) -> Seen: pass"
        ),
        "workflow.bad_event",
    ),
    "an effect received": (
        (
            "from tallystick import receive\n"
            "class Ask(Effect[Seen], executor='x'): a: int\n"
            "@app.workflow(key='id', effects=[Ask])\n"
            "async def w(ctx: Flow, start: Go) -> int: await receive(Ask.Progress)"
        ),
        "workflow.bad_event",
    ),
    "two of a name": (
        (
            "First = Go\nclass Go(Record): id: str\n@app.workflow(key='id')\n"
            "def w(state: Seen | None, event: First | Go, ctx: Ctx) -> Seen: pass"
        ),
        "workflow.bad_event",
    ),
    "nobody performs": (
        (
            "class Ask(Effect): a: int\n@app.workflow(key='id', effects=[Ask])\n"
            "def w(state: Seen | None, event: Go, ctx: Ctx) -> Seen: pass"
        ),
        "workflow.effect_unknown",
    ),
    "pure": (
        (
            "@app.pure\ndef f(a): return a\n@app.workflow(key='id')\n"
            "def w(state: Seen | None, event: Go, ctx: Ctx) -> Seen: pass"
        ),
        "def.bad_value",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_defined_is_refused(name: str) -> None:
    """K-24: each with its code and a hint that says what to write."""
    source, code = REFUSED[name]
    with pytest.raises(BadDefinition) as caught:
        bundle_of({"app.py": (HEAD + source).encode()})
    assert caught.value.code == code
    assert caught.value.hint or name == "twice"


def test_what_is_no_workflow_is_refused() -> None:
    """K-24: a function that nobody decorated."""
    with pytest.raises(BadDefinition) as caught:
        spec_of(len)
    assert caught.value.code == "ref.workflow"


def test_an_app_without_a_manifest_is_refused() -> None:
    """K-24: a definition of its own that cannot be read stops the build, structural or not."""
    app = Bundle("t", definitions=[{"$kind": "defschema", "name": "no name", "type": {}}])
    for structural in (True, False):
        with pytest.raises(BadDefinition):
            build(app, {"app.py": b""}, structural=structural)


def test_samples_and_invariants_stand_with_their_workflow() -> None:
    """K-48: what the model checker is told, by the name of the workflow."""
    app = Bundle("t")

    @app.workflow
    def w(state: Any, event: Any, ctx: Any) -> Any:
        return state

    def holds(cell: Any, trace: Any) -> bool:
        return True

    app.check(w, events=[1])
    assert app.invariant(w)(holds) is holds
    assert app.samples == {"t/w@1": {"events": [1]}}
    assert app.invariants == {"t/w@1": [holds]}


WIDE = (
    HEAD.replace('Bundle("t")', 'Bundle("t", limits={"effects_max": 9})')
    + """
class Half(Record): part: int
class Ask(Effect[Seen], executor="x", progress=list[int]): n: int
@app.workflow(on=[On(Go, key="id", init=Seen(n=3)), On(More)], effects=[Ask])
def w(state: Seen | Half | None, event: Go | More, ctx: Ctx) -> Seen | Half: return state
@app.workflow
def single(state: Seen, event: More, ctx: Ctx) -> Seen: return state
"""
)


def test_the_rarer_options_reach_the_definitions() -> None:
    """AU-02: an initial state, progress, limits, a subscription without a key, a state of arms."""
    bundle = bundle_of({"app.py": WIDE.encode()})
    known = {d["name"]: d for d in bundle.definitions() if "name" in d}
    routes = bundle.manifest["routing"]["subscriptions"]
    assert routes[0]["init_state"] == {"n": 3}
    assert [route.get("key_field") for route in routes] == ["id", None, None]
    assert bundle.manifest["limits"] == {"effects_max": 9}
    assert known["t/Ask@1"]["progress"] == "t/Ask.progress@1"
    assert known["t/Ask.progress@1"]["type"] == {"list": {"int": {}}}
    assert "key_schema" not in known["t/single@1"]
    assert set(known["t/w.state@1"]["type"]["variant"]) == {"Seen", "Half"}


def test_a_record_of_ours_keeps_its_name() -> None:
    """K-03: a field that holds a receipt of ours refers to it; nobody writes it a second time."""
    source = HEAD + (
        "from tallystick.workflow.governance import Proposed\n"
        "class Held(Record): got: Proposed | None = None\n"
        "@app.workflow(key='id')\n"
        "def w(state: Held | None, event: Go, ctx: Ctx) -> Held: return Held()\n"
    )
    bundle = bundle_of({"app.py": source.encode()})
    known = {d["name"]: d for d in bundle.definitions() if "name" in d}
    ours = "sys/GovernanceProposeReceipt@1"
    assert known["t/Held@1"]["type"]["record"]["got"] == {"option": {"ref": ours}}
    assert ours not in known


# ---- a reducer's context --------------------------------------------------------------------

ASKING = (
    HEAD
    + """
from tallystick.workflow.outside import CancelRequested
class Work(Effect[Seen], executor="x"): n: int
@app.workflow(key="id", lifecycle="entity")
def child(state: Seen | None, event: More, ctx: Ctx) -> Seen:
    if event.n == 9:
        ctx.fail("child.bad", "no")
    elif event.n:
        ctx.complete(event.n)
    return Seen(n=event.n)
Heard = Go | More | Work.Settled | Call.Settled | Read.Settled | CancelRequested
@app.workflow(key="id", children=[child], reads=[child], effects=[Work])
def parent(state: Seen | None, event: Heard, ctx: Ctx) -> Seen | None:
    match event:
        case Go():
            ctx.spawn(child, "c0", More(id="c0", n=0))
            ctx.call(child, "c1", More(id="c1", n=1))
            ctx.call(child, "c9", More(id="c9", n=9))
            ctx.read(child, "never")
            ctx.read(child)
            ctx.effect(Work(n="many"))
        case More():
            return None
        case Call.Ok(value=value):
            ctx.log("called", value=value)
            ctx.read(child, "c0")
        case Read.Ok(value=value):
            ctx.log("read", value=None if value is None else value.n)
        case Call.Error(code=code, kind=kind):
            ctx.log(kind, value=code)
        case Work.Denied(code=code):
            ctx.log("denied", value=code)
        case CancelRequested():
            ctx.log("cancel")
    return Seen()
"""
)


@pytest.mark.clause("X-17", "X-27")
def test_a_reducer_has_children_reads_and_is_asked_to_stop() -> None:
    """X-17, X-18, X-26, X-27: spawn, call, read and cancel, each with its outcome to match."""
    world, app = loaded(ASKING)
    world.send(app.Go(id="a"))
    world.cancel(app.parent, "a")
    lines = [line for ticked in world.records(Ticked) for line in ticked.logs or ()]
    heard = [(line["message"], line.get("fields", {}).get("value")) for line in lines]
    assert ("called", 1) in heard
    assert ("child", "child.bad") in heard
    assert ("read", 0) in heard
    assert ("read", None) in heard
    assert ("denied", "effect.params_invalid") in heard
    assert heard[-1] == ("cancel", None)
    world.send(app.More(id="a"))
    assert world.cell(app.parent, "a") is None
    world.assert_replays()


UNDECLARED = (
    HEAD
    + """
class Work(Effect[Seen], executor="x"): n: int
class Other(Effect[Seen], executor="x"): n: int
@app.workflow(key="id", effects=[Other])
def w(state: Seen | None, event: Go | Work.Settled, ctx: Ctx) -> Seen:
    match event:
        case Go():
            ctx.effect(Work(n=1))
        case Work.Failed(code=code):
            ctx.log(code)
    return Seen()
"""
)


@pytest.mark.clause("K-05")
def test_an_effect_that_nobody_declared_is_refused_to_the_code() -> None:
    """K-05: the request goes out as it is, is judged by the kernel, and the refusal is heard."""
    world, app = loaded(UNDECLARED)
    world.send(app.Go(id="a"))
    lines = [line for ticked in world.records(Ticked) for line in ticked.logs or ()]
    assert [line["message"] for line in lines] == ["effect.undeclared"]
    world.assert_replays()


def test_an_error_of_another_shape_is_an_error_all_the_same() -> None:
    """X-05: an effect with an error schema of its own; the digest of its payload is the message."""
    _, app = loaded(ASKING)
    came = Came("t/Work@1", "error", canon.encode("broke"), "one", bytes(32))
    said = outcome_of(shape_of(spec_of(app.parent)), came, 5)
    assert (said.kind, said.code, said.corr) == ("error", "effect.error", "one")
    assert said.message == canon.text_of(canon.digest("broke"))


def test_a_tick_says_what_is_wrong_with_it() -> None:
    """X-04: an unknown level of the log, and a state that does not fit, are faults with a code."""
    source = (
        HEAD
        + """
@app.workflow(key="id")
def w(state: Seen | None, event: More, ctx: Ctx) -> Seen:
    if event.n == 1:
        ctx.log("x", level="loud")
    if event.n == 2:
        return Seen(n="many")
    ctx.log("plain")
    ctx.count("met", 2)
    ctx.count("met")
    drawn = [ctx.random() < 1, ctx.uuid().version == 4, ctx.choice([7]) == 7]
    return Seen(n=drawn.count(True))
"""
    )
    world, app = loaded(source)
    world.send(app.More(id="a", n=1)).send(app.More(id="b", n=2)).send(app.More(id="c"))
    faults = [(fault.code, fault.message) for fault in world.records(WorkflowFaulted)]
    assert [code for code, _ in faults] == ["exception", "bad_output"]
    assert "is not one of" in faults[0][1]
    assert "does not fit t/Seen@1" in faults[1][1]
    assert world.cell(app.w, "c").state == app.Seen(n=3)
    (ticked,) = world.records(Ticked)
    assert ticked.metrics == {"met": 3}
    world.assert_replays()
