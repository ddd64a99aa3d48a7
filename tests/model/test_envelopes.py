"""Envelopes: what a cell is handed fits its schema, and its payload follows its status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tallystick.errors import SchemaMismatch
from tallystick.kernel.inputs import Settle
from tallystick.model import envelopes
from tallystick.model.abi import Content, Halted, Ran, TickInput
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.catalogue_build import sys_schemas
from tallystick.model.records import ReceiptSettled
from tallystick.modules.python import PythonRunner
from tallystick.values import canon
from tests import worlds
from tests.kernel import mixed
from tests.rig import NODE, Rig

H = "sha256:" + "0" * 64
ASKED = envelopes.Asked("t/flow@1", H, b"k", H, "t/ask@1", H, "t/m@1", H, "go", H, "ref", 7)
BARE = ASKED._replace(
    origin_instance_key=None,
    executor_module=None,
    executor_module_hash=None,
    executor_entrypoint=None,
    issuer_ref=None,
)
CONTEXT = envelopes.Context(
    1,
    2,
    3,
    bytes(64),
    H,
    H,
    "t/flow@1",
    H,
    b"k",
    True,
    "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
    4,
    1,
)
RECEIPT = envelopes.Receipt("ok", b"p", 8, 1, 3)
REJECTION = envelopes.Rejection("rejected", "code", "message", H, 3)
FRAME = envelopes.Frame(1, 2, "token", b"p", H)


class Made(NamedTuple):
    """An envelope, built, with the parts that it is built from."""

    schema: str
    build: Callable[..., bytes]
    parts: tuple[Any, ...]


MADE = [
    Made(envelopes.RECEIPT, envelopes.receipt_document, (ASKED, RECEIPT)),
    Made(envelopes.RECEIPT, envelopes.receipt_document, (BARE, RECEIPT._replace(cost_cents=None))),
    Made(envelopes.REJECTED, envelopes.rejection_document, (ASKED, REJECTION)),
    Made(envelopes.REJECTED, envelopes.rejection_document, (BARE, REJECTION)),
    Made(envelopes.PROGRESS, envelopes.progress_document, (ASKED, FRAME)),
    Made(envelopes.PROGRESS, envelopes.progress_document, (BARE, FRAME._replace(payload_ref=None))),
    Made(envelopes.CONTEXT, envelopes.context_document, (CONTEXT,)),
    Made(
        envelopes.CONTEXT,
        envelopes.context_document,
        (CONTEXT._replace(key=None, workflow_hash=None, cell_mode=False),),
    ),
]


@pytest.mark.clause("K-15", "K-28")
@pytest.mark.parametrize("made", MADE, ids=range(len(MADE)))
def test_envelopes_fit_their_schemas(made: Made) -> None:
    """MO-10: the joined document is the canonical document of exactly the schema's fields."""
    schema = sys_schemas()[made.schema]
    data = made.build(*made.parts)
    fields = [name for part in made.parts for name in part._fields]
    assert sorted(fields) == sorted(schema.type["record"])
    admitted = schema.read(data)
    assert admitted.bytes == data
    for part in made.parts:
        for name, value in part._asdict().items():
            shown = {"$tag": value} if name == "status" else value
            assert admitted.value[name] == shown


@pytest.mark.parametrize("made", MADE[::2], ids=range(4))
def test_a_field_less_is_refused(made: Made) -> None:
    """MO-10: control: reading is strict, so a missing or added field would have been found."""
    schema = sys_schemas()[made.schema]
    raw = canon.decode(made.build(*made.parts))
    assert isinstance(raw, dict)
    for name in list(raw):
        with pytest.raises(SchemaMismatch):
            schema.read(canon.encode({k: v for k, v in raw.items() if k != name}))
    with pytest.raises(SchemaMismatch):
        schema.read(canon.encode({**raw, "more": 1}))


class Inspecting:
    """A runner that reads every delivery strictly before another one runs it."""

    def __init__(self, functions: Any) -> None:
        self.inner = PythonRunner(functions)
        self.seen: list[str] = []

    def init(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput
    ) -> bytes | Halted | None:
        return self.inner.init(catalogue, workflow, tick)

    def pure(
        self, catalogue: Catalogue, module: str, entrypoint: str, data: bytes, ctx: bytes | None
    ) -> bytes | Halted:
        return self.inner.pure(catalogue, module, entrypoint, data, ctx)

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        value = tick.event.value()
        admitted = workflow.event.read(value)
        assert admitted.bytes == value
        assert tick.event.plain() == canon.decode(value), "both forms of an event are one value"
        assert tick.event.plain() is not tick.event.plain(), "and the plain one is fresh"
        if tick.ctx is not None:
            sys_schemas()[envelopes.CONTEXT].read(tick.ctx.document())
        self.seen.append(admitted.value.get("$tag", workflow.event_name))
        return self.inner.tick(catalogue, workflow, tick, content)


@pytest.mark.clause("K-15", "K-28", "K-34")
def test_every_delivery_of_a_mixed_world_is_canonical() -> None:
    """MO-08, MO-10: events, receipts, rejections, progress, cancellation and context all fit."""
    rig = mixed.mixed_rig()
    watching = Inspecting(mixed.FUNCTIONS)
    rig.world.runner = watching
    mixed.play(rig)
    assert {"Go", "Receipt", "Rejected", "Progress", "Cancel"} <= set(watching.seen)
    assert mixed.TOLD in watching.seen


# ---- payload follows status -----------------------------------------------------------------

ANSWER = {"a": "yes"}
ERROR = {
    "kind": "http",
    "code": "http.500",
    "message": "broken",
    "retryable": True,
    "retry_after_ns": None,
    "details_ref": None,
}


def last_log(rig: Rig) -> str:
    state = rig.state(worlds.LAB, "a")
    found: str = state["log"][-1]
    return found


def asked(do: str = "ask", n: int = 1) -> Rig:
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", do, n))
    return rig


@pytest.mark.clause("K-11", "K-17")
@pytest.mark.parametrize(
    ("status", "payload", "became"),
    [
        ("ok", ANSWER, "ok"),
        ("ok", ERROR, "rejected"),
        ("ok", {}, "rejected"),
        ("error", ERROR, "error"),
        ("error", ANSWER, "rejected"),
        ("timeout", ERROR, "rejected"),
        ("cancelled", ERROR, "rejected"),
        ("denied", {"code": "c", "stage": "policy", "message": "m"}, "rejected"),
        ("rejected", ANSWER, "rejected"),
        ("fine", ANSWER, "rejected"),
    ],
)
def test_an_executor_says_ok_or_error(status: str, payload: dict[str, Any], became: str) -> None:
    """MO-11: `ok` takes the receipt schema, `error` the error schema; no other word is its own."""
    rig = asked()
    (job,) = rig.jobs.all
    rig.settle(job, payload, status)
    (settled,) = rig.records(ReceiptSettled)
    assert settled.status == became
    assert last_log(rig) == ("rejected" if became == "rejected" else f"{became}:r1")
    assert settled.error is None or settled.error["code"].startswith("receipt")


def effect_error(settled: ReceiptSettled) -> dict[str, Any]:
    assert settled.payload is not None
    value = sys_schemas()["sys/EffectError@1"].read(settled.payload).value
    assert isinstance(value, dict)
    return value


@pytest.mark.clause("K-11", "X-10")
def test_timeout_is_an_effect_error() -> None:
    """MO-11: the kernel settles `timeout` with `sys/EffectError@1`."""
    rig = asked("hurry", 1)
    rig.pass_time(2 * mixed.HOUR_NS)
    (settled,) = rig.records(ReceiptSettled)
    assert (settled.status, settled.source) == ("timeout", "kernel")
    assert effect_error(settled)["kind"] == "timeout"


@pytest.mark.clause("K-11")
def test_cancelled_is_an_effect_error() -> None:
    """MO-11: the kernel settles `cancelled` with `sys/EffectError@1`."""
    rig = asked("ask", 1)
    rig.send(worlds.GO, worlds.go("a", "undo", 1))
    settled = rig.records(ReceiptSettled)[0]
    assert (settled.status, settled.source) == ("cancelled", "kernel")
    assert effect_error(settled)["kind"] == "cancelled"


@pytest.mark.clause("K-11", "X-06")
def test_denied_is_an_effect_denial() -> None:
    """MO-11: the kernel settles `denied` with `sys/EffectDenial@1` and the stage that said no."""
    rig = asked("refused")
    (settled,) = rig.records(ReceiptSettled)
    assert (settled.status, settled.source) == ("denied", "kernel")
    assert settled.payload is not None
    denial = sys_schemas()["sys/EffectDenial@1"].read(settled.payload).value
    assert denial["stage"] == "capability"
    assert last_log(rig) == "denied:"


@pytest.mark.clause("K-17")
def test_rejected_names_what_came() -> None:
    """MO-11: `rejected` keeps digest and size of what could not be read."""
    rig = asked()
    (job,) = rig.jobs.all
    junk = b"\x00" * 40
    receipt = rig.receipt(job, junk, "ok", pair=NODE)
    seen: list[Any] = []
    functions = {
        **mixed.FUNCTIONS,
        ("t/code@1", "lab"): lambda state, event, ctx: seen.append(event) or state,  # type: ignore[func-returns-value]
    }
    rig.world.runner = PythonRunner(functions)
    rig.do(Settle(rig.clock.sample(), receipt))
    rig.run()
    value = seen[0]["$value"]
    assert value["status"] == {"$tag": "rejected"}
    assert (value["payload_hash"], value["payload_size"]) == (canon.hash_of(junk), 40)
