"""The kit: annotations are the definition, outcomes are classes (AU-01 to AU-06)."""

# tidy: tables of programs and outcomes.
from __future__ import annotations

import pytest

from tallystick.errors import BadDefinition
from tallystick.model import envelopes
from tallystick.model.records import IntentAttached, IntentOpened, Ticked, WorkflowFaulted
from tallystick.modules.source import bundle_of
from tallystick.testing.answers import duplicate, error, late, malformed, ok, timeout
from tallystick.values import canon
from tallystick.workflow.retry import Backoff, Retry
from tests.workflow.apps import HELLO, ORDER
from tests.workflow.names import loaded, module_of
from tests.workflow.nothing import asked


def lines(source: str) -> int:
    return len([line for line in source.splitlines() if line.strip()])


@pytest.mark.clause("K-03")
def test_hello_is_short_and_runs() -> None:
    """AU-01: the first program has at most 18 lines and counts visits of one guest."""
    assert lines(HELLO) <= 18
    world, app = loaded(HELLO)
    world.send(app.Greet(name="Ada")).send(app.Greet(name="Ada")).send(app.Greet(name="Bob"))
    assert world.cell(app.greeter, "Ada").state == app.Guest(visits=2)
    assert world.cell(app.greeter, "Bob").state == app.Guest(visits=1)
    assert [record.logs[0]["message"] for record in world.records(Ticked)] == ["hello"] * 3
    world.assert_replays()


@pytest.mark.clause("K-03")
def test_order_times_out_waits_and_pays() -> None:
    """AU-01, AU-03: the order program; new key, same token: two intents, one act outside."""
    world, app = loaded(ORDER, seed=1)
    world.send(app.Placed(order_id="o1", cents=500))
    world.settle(app.Charge, timeout())
    assert world.cell(app.orders, "o1").state.phase == "backoff"
    world.advance("2s").settle(app.Charge, ok(app.Charged(ref="r1")))
    assert world.events(app.Paid) == [app.Paid(order_id="o1", ref="r1")]
    assert world.cell(app.orders, "o1").status == "completed"
    asked = [r for r in world.records(IntentOpened) if r.effect == "shop/Charge@1"]
    assert [r.idempotency_key for r in asked] == [b"charge/0", b"charge/1"]
    assert {params.token for params in world.params(app.Charge)} == {"o1"}
    world.assert_replays()


ANSWERS = [
    (ok({"ref": "r"}), "paid", "completed"),
    (error("card.declined"), "refused", "failed"),
    (error("bank.down", retryable=True), "backoff", "waiting"),
    (timeout(), "backoff", "waiting"),
    (late(ok({"ref": "r"})), "backoff", "waiting"),
    (duplicate(ok({"ref": "r"})), "paid", "completed"),
]


@pytest.mark.clause("X-06")
@pytest.mark.parametrize(("said", "phase", "status"), ANSWERS)
def test_every_answer_reaches_its_branch(said, phase: str, status: str) -> None:
    """AU-04: sealed receipts and passed deadlines reach the branch that matches their class."""
    world, app = loaded(ORDER)
    world.send(app.Placed(order_id="o1", cents=500)).settle(app.Charge, said)
    cell = world.cell(app.orders, "o1")
    assert (cell.state.phase, cell.status) == (phase, status)
    world.assert_replays()


def test_a_denied_effect_is_an_outcome() -> None:
    """AU-04: policy says no; the reducer matches `Denied` and fails the order with the code."""
    module = module_of(ORDER)
    world, app = loaded(ORDER, denied=[module.Charge])
    world.send(app.Placed(order_id="o1", cents=500))
    assert world.cell(app.orders, "o1").state.phase == "refused"
    world.assert_replays()


SEES = """
from tallystick import Bundle, Ctx, Effect, Record, Timer
app = Bundle("t")
class Go(Record): key: str
class Stop(Record): key: str
class Got(Record): ref: str
class Work(Effect[Got], executor="work"): n: int
class Seen(Record): all: list[str]
@app.workflow(key="key", effects=[Work, Timer])
def sees(state: Seen | None, event: Go | Stop | Work.Settled | Work.Progress, ctx: Ctx) -> Seen:
    seen = [] if state is None else list(state.all)
    match event:
        case Go():
            ctx.effect(Work(n=1), corr="one", timeout="1m")
        case Stop():
            ctx.cancel("one")
        case Work.Ok(corr=corr, value=Got(ref=ref)):
            seen.append(f"ok {corr} {ref}")
        case Work.Rejected(corr=corr, code=code):
            seen.append(f"rejected {corr} {code != ''}")
        case Work.Cancelled(corr=corr):
            seen.append(f"cancelled {corr}")
        case Work.Timeout(corr=corr):
            seen.append(f"timeout {corr}")
        case Work.Denied(corr=corr, code=code, rule=rule):
            seen.append(f"denied {corr} {code} {rule}")
        case Work.Error(corr=corr, code=code, kind=kind, retryable=retryable):
            seen.append(f"error {corr} {code} {kind} {retryable}")
        case Work.Progress(corr=corr, seq=seq, kind=kind, payload=payload):
            seen.append(f"progress {corr} {seq} {kind} {payload}")
    return Seen(all=seen)
"""

SEEN = [
    (ok({"ref": "r"}), "ok one r"),
    (error("e.x", kind="k", retryable=True), "error one e.x k True"),
    (timeout(), "timeout one"),
    (malformed(), "rejected one True"),
]


@pytest.mark.clause("K-17", "X-05")
@pytest.mark.parametrize(("said", "expected"), SEEN)
def test_match_reaches_every_outcome(said, expected: str) -> None:
    """AU-03, AU-04: the correlation comes back with each outcome, an unreadable receipt too."""
    world, app = loaded(SEES)
    world.send(app.Go(key="a")).settle(app.Work, said)
    assert world.cell(app.sees, "a").state.all == [expected]
    world.assert_replays()


@pytest.mark.clause("X-05")
def test_a_denial_echoes_the_correlation() -> None:
    """AU-03, AU-04: what policy refuses comes back under its name, with code and rule."""
    world, app = loaded(SEES, denied=[module_of(SEES).Work])
    world.send(app.Go(key="a"))
    (seen,) = world.cell(app.sees, "a").state.all
    assert seen.startswith("denied one policy.denied ")
    assert seen.endswith('"no-0"')
    world.assert_replays()


@pytest.mark.clause("K-27")
def test_progress_and_cancel_are_outcomes_too() -> None:
    """AU-04: progress comes because the annotation names it; a cancelled effect says so."""
    world, app = loaded(SEES)
    world.send(app.Go(key="a")).progress(app.Work, 1, "note", {"n": 1})
    world.send(app.Stop(key="a"))
    expected = ["progress one 1 note {'n': 1}", "cancelled one"]
    assert world.cell(app.sees, "a").state.all == expected
    world.assert_replays()


KEYED = SEES.replace('corr="one", timeout="1m"', 'corr="one", key="k"')


@pytest.mark.clause("K-47")
def test_the_same_key_attaches() -> None:
    """AU-03: asked again with the same key, one intent is executed and both askers are told."""
    world, app = loaded(KEYED)
    world.send(app.Go(key="a")).send(app.Go(key="a"))
    assert len(world.open(app.Work)) == 1
    assert len(world.records(IntentAttached)) == 1
    world.settle(app.Work, ok(app.Got(ref="r")))
    assert world.cell(app.sees, "a").state.all == ["ok one r"] * 2


class Counter:
    """A context that gives numbers in order."""

    def below(self, limit: int) -> int:
        return limit - 1


@pytest.mark.clause("X-15")
def test_waits_grow_to_the_ceiling_and_end() -> None:
    """AU-05: golden waits with the largest jitter; integer nanoseconds, then None."""
    policy = Backoff(first="1s", factor=3, ceiling="5s", attempts=5)
    retry, waits = Retry(), []
    for _ in range(5):
        retry, wait = retry.again(policy, Counter())
        waits.append(wait)
    assert waits == [1_100_000_000, 3_300_000_000, 5_500_000_000, 5_500_000_000, None]
    assert retry.attempt == 5


def test_a_schedule_that_never_waits_is_refused() -> None:
    """AU-05: a back-off of zero, or without attempts, is refused when it is written."""
    for wrong in ({"first": "0s"}, {"attempts": 0}, {"first": "2m", "ceiling": "1m"}):
        with pytest.raises(BadDefinition) as caught:
            Backoff(**wrong)
        assert caught.value.code == "def.bad_value"


TYPES = """
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal
from uuid import UUID
from tallystick import Bundle, Ctx, Duration, Json, Nat, Record, Time, Where, On
app = Bundle("t")
class Colour(Enum):
    red = "r"
    blue = "b"
class Left(Record): n: int
class Right(Record): s: str
class All(Record):
    key: str
    small: Annotated[int, Where(max=9)]
    nat: Nat
    money: Decimal
    ident: UUID
    at: Time
    wait: Duration
    many: list[Left]
    words: frozenset[str]
    table: dict[str, Right]
    maybe: Left | None
    side: Left | Right
    word: Literal["yes", "no"]
    colour: Colour
    free: Json
    raw: bytes
    flag: bool
@app.workflow(key="key", on=[On(All, key="key", origin=("external",), tags=("eu",))],
              summary="keeps", tags=("a",), owners=("team",), limits={"effects_max": 8})
def keeps(state: All | None, event: All, ctx: Ctx) -> All:
    return event
"""


@pytest.mark.clause("K-34")
def test_every_type_comes_back_equal() -> None:
    """AU-02: annotation to schema to bytes to an equal value, for each type of the mapping."""
    world, app = loaded(TYPES)
    module = app
    value = module.All(
        key="k", small=9, nat=7, money=__import__("decimal").Decimal("12.50"),
        ident=__import__("uuid").UUID(int=5), at="2026-01-01T00:00:00Z", wait="30s",
        many=[module.Left(n=1)], words=frozenset({"b", "a"}), table={"x": module.Right(s="s")},
        maybe=None, side=module.Right(s="t"), word="no", colour=module.Colour.blue,
        free={"a": [1, None]}, raw=b"\x00", flag=True,
    )  # fmt: skip
    world.send(value, tags=("eu",))
    kept = world.cell(app.keeps, "k").state
    assert kept == value.replace(at=1_767_225_600_000_000_000, wait=30_000_000_000)
    world.assert_replays()


def test_options_reach_the_definition() -> None:
    """AU-02: subscriptions, metadata and limits are kept as they were written."""
    bundle = bundle_of({"app.py": TYPES.encode()})
    (flow,) = [d for d in bundle.definitions() if d["$kind"] == "defworkflow"]
    assert flow["metadata"] == {"summary": "keeps", "tags": ["a"], "owners": ["team"]}
    assert flow["limits"] == {"effects_max": 8}
    (route,) = bundle.manifest["routing"]["subscriptions"]
    assert route["filter"] == {"origin": ["external"], "tags": ["eu"]}


REFUSED = [
    ("float", "float", "/x"),
    ("list", "list", "/x"),
    ("object", "object", "/x"),
    ("int | str", "union", "/x"),
]


@pytest.mark.parametrize(("annotation", "_what", "path"), REFUSED)
def test_types_without_a_canonical_form_are_refused(annotation: str, _what: str, path: str) -> None:
    """AU-02: refused with `schema.unsupported`, the path of the field and a hint."""
    source = HELLO.replace("visits: int = 0", f"visits: int = 0\n    x: {annotation} = None")
    with pytest.raises(BadDefinition) as caught:
        bundle_of({"app.py": source.encode()})
    assert caught.value.code == "schema.unsupported"
    assert caught.value.where["path"] == path
    assert caught.value.hint


CLASSY = """
from tallystick import Bundle, Ctx, Record
app = Bundle("t")
class Add(Record): key: str; n: int
class Sum(Record): total: int
@app.workflow(key="key", lifecycle="entity")
class adder:
    @staticmethod
    def init(ctx: Ctx, event: Add) -> Sum:
        return Sum(total=100)
    @staticmethod
    def tick(state: Sum | None, event: Add, ctx: Ctx) -> Sum:
        return state.replace(total=state.total + event.n)
"""


@pytest.mark.clause("X-11")
def test_the_class_form_has_an_init() -> None:
    """AU-02: a class with static `tick` and `init`; the first tick starts from what init gives."""
    world, app = loaded(CLASSY)
    world.send(app.Add(key="a", n=1)).send(app.Add(key="a", n=2))
    assert world.cell(app.adder, "a").state.total == 103
    world.assert_replays()


CLOSING = CLASSY.replace(
    "ctx: Ctx) -> Sum:\n        return state", "ctx: Ctx) -> Sum | None:\n        return state"
).replace(
    "return state.replace(total=state.total + event.n)",
    "return state.replace(total=state.total + event.n) if event.n else None",
)


@pytest.mark.clause("K-35")
@pytest.mark.parametrize("waits", [False, True])
def test_an_event_behind_a_delete_begins_as_in_a_new_cell(waits: bool) -> None:
    """K-35: what a cell begins with does not depend on whether mail waited when it was deleted."""
    world, app = loaded(CLOSING)
    world.send(app.Add(key="a", n=1))
    for n in (0, 5):
        if waits:
            world.do(world.submit_of(app.Add(key="a", n=n)))
        else:
            world.send(app.Add(key="a", n=n))
    world.run()
    assert world.cell(app.adder, "a").state.total == 105
    world.assert_replays()


def test_equal_sources_give_equal_bundles() -> None:
    """AU-02: built twice, the bundle has one root; one changed byte gives another."""
    one, two = (bundle_of({"app.py": ORDER.encode()}) for _ in range(2))
    assert one.to_zip() == two.to_zip()
    assert bundle_of({"app.py": (ORDER + "#\n").encode()}).root != one.root


def test_records_refuse_unknown_fields() -> None:
    """AU-02: `replace` refuses a field that does not exist; a record cannot be changed."""
    module = module_of(HELLO)
    guest = module.Guest()
    with pytest.raises(TypeError):
        guest.replace(vists=1)
    with pytest.raises(AttributeError):
        guest.visits = 3


class Given:
    """The context of a tick, with a time of its own."""

    world = "w"

    def __init__(self, now_ns: int) -> None:
        self.now_ns = now_ns

    def entropy(self) -> bytes:
        return bytes(range(64))

    def lot(self) -> int:
        return 0

    def document(self) -> bytes:
        context = envelopes.Context(
            now_ns=1,
            logical_now_ns=self.now_ns,
            journal_height=2,
            entropy=self.entropy(),
            event_hash="",
            manifest_hash="",
            workflow="a/b@1",
            workflow_hash="",
            key=canon.encode("k"),
            cell_mode=True,
            world=self.world,
            event_seq=3,
            state_version=1,
        )
        return envelopes.context_document(context)


@pytest.mark.parametrize("now", [0, 23, 1_731_628_800_123_456_789, 2**64 - 1])
def test_time_and_key_of_a_tick_are_those_of_its_context(now: int) -> None:
    """K-28: read from the whole context or past it, time and key are the same."""
    made = Given(now)
    ctx, quick = asked(made), asked(made, canon.encode("k"))
    assert ctx.given()["logical_now_ns"] == ctx.now == now
    assert quick.key == ctx.key == "k"
    assert (ctx.seq, ctx.world, ctx.workflow) == (3, "w", "a/b@1")


HASTY = """
from tallystick import Bundle, Ctx, Human, Llm, Record, Shell

app = Bundle("hasty")


class Go(Record):
    id: str
    what: str


class Gone(Record):
    said: str


@app.workflow(key="id", effects=[Human])
def hasty(state: Gone | None, event: Go | Human.Settled | Shell.Settled, ctx: Ctx) -> Gone:
    match event:
        case Go(what="named"):
            ctx.effect(Shell(argv=["/bin/true"]))
            return Gone(said="")
        case Go(what="nowhere"):
            ctx.effect(Llm(provider="local", model="m", messages=[], max_tokens=1))
            return Gone(said="")
        case Shell.Denied(code=code):
            return Gone(said=f"shell {code}")
        case Go(what="forgotten"):
            pass
        case other if not isinstance(other, Go):
            return Gone(said=f"other {other.code}")
"""


@pytest.mark.clause("K-05")
@pytest.mark.parametrize(
    ("what", "said"),
    [("named", "shell effect.undeclared"), ("nowhere", "other effect.undeclared")],
)
def test_a_refusal_of_what_was_not_declared_is_heard(what: str, said: str) -> None:
    """AU-02: an undeclared effect is a denial to match on, of its own class where it is named."""
    world, app = loaded(HASTY)
    world.send(app.Go(id="a", what=what))
    assert world.cell(app.hasty, "a").state == app.Gone(said=said)


@pytest.mark.clause("K-35")
def test_a_forgotten_case_does_not_delete_the_cell() -> None:
    """AU-02: None ends a cell only where the annotation says so; else the tick is at fault."""
    world, app = loaded(HASTY)
    world.send(app.Go(id="a", what="forgotten"))
    (fault,) = world.records(WorkflowFaulted)
    assert fault.code == "bad_output"
    assert "returned None" in fault.message
