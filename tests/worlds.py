"""Small worlds for tests: the order workflow, a counter, and pieces to build others."""

# tidy: small worlds share their pieces, so they stand together.
from __future__ import annotations

from typing import Any

from tallystick.modules.python import Outcome

RECORD = "record"


def schema(name: str, type_: Any) -> dict[str, Any]:
    return {"$kind": "defschema", "name": name, "type": type_}


def record(**fields: Any) -> dict[str, Any]:
    return {"record": fields}


TEXT = {"text": {}}
NAT = {"nat": {}}
INT = {"int": {}}
BYTES = {"bytes": {}}
UNIT = {"unit": {}}


def opt(inner: Any) -> dict[str, Any]:
    return {"option": inner}


def ref(name: str) -> dict[str, Any]:
    return {"ref": name}


def arms(**names: str) -> dict[str, Any]:
    return {"variant": {tag: ref(name) for tag, name in names.items()}}


RECEIPT = "sys/EffectReceiptEnvelope@1"
REJECTED = "sys/EffectReceiptRejected@1"
CANCEL = "sys/CancelRequested@1"
PROGRESS = "sys/EffectStreamFrame@1"


def module(name: str = "t/code@1", **more: Any) -> dict[str, Any]:
    return {
        "$kind": "defmodule",
        "name": name,
        "runtime": {
            "kind": "python",
            "python": "3.11",
            "artifact": {"kind": "python_bundle", "root_hash": "sha256:" + "1" * 64},
        },
        **more,
    }


def outside(name: str = "t/outside@1") -> dict[str, Any]:
    return {"$kind": "defmodule", "name": name, "runtime": {"kind": "external"}}


def workflow(name: str, state: str, event: str, **more: Any) -> dict[str, Any]:
    made = {
        "$kind": "defworkflow",
        "name": name,
        "state": state,
        "event": event,
        "effects_emitted": [],
        "impl": {"module": "t/code@1", "entrypoint": name.split("/")[1].split("@", maxsplit=1)[0]},
    }
    made.update(more)
    return made


def effect(name: str, params: str, receipt: str, **more: Any) -> dict[str, Any]:
    return {
        "$kind": "defeffect",
        "name": name,
        "params": params,
        "receipt": receipt,
        "impl": {"module": "t/outside@1", "entrypoint": "outside"},
        **more,
    }


def allow_all(*caps: str, bindings: dict[str, dict[str, str]] | None = None) -> dict[str, Any]:
    """Authority sections: a grant per capability, and one allow rule."""
    grants = [{"name": cap.split("/")[1].split("@")[0], "cap": cap, "params": {}} for cap in caps]
    return {
        "authority": {"grants": grants, "policies": ["t/all@1"]},
        "module_bindings": {w: {"slots": s} for w, s in (bindings or {}).items()},
    }


ALLOW = {
    "$kind": "defpolicy",
    "name": "t/all@1",
    "rules": [{"id": "all", "when": {"origin": "workflow"}, "decision": "allow"}],
}


def manifest(subscriptions: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "$kind": "manifest",
        "air_version": "2",
        "routing": {"subscriptions": subscriptions},
        **more,
    }


# ---- the order world ------------------------------------------------------------------------

ORDER = "com.acme/order.flow@1"
CREATED = "com.acme/OrderCreated@1"
CHARGE = "com.acme/charge@1"


# tidy: one world is one literal.
def order_documents(**more: Any) -> list[dict[str, Any]]:
    return [
        schema("com.acme/OrderId@1", TEXT),
        schema(
            CREATED,
            record(order_id=TEXT, amount_cents=NAT, note=opt(TEXT)),
        ),
        schema(
            "com.acme/OrderEvent@1",
            arms(Created=CREATED, Receipt=RECEIPT, Rejected=REJECTED, Cancel=CANCEL),
        ),
        schema(
            "com.acme/OrderState@1",
            record(order_id=TEXT, phase=TEXT, attempt=NAT, ref=opt(TEXT)),
        ),
        schema("com.acme/ChargeParams@1", record(order_id=TEXT, cents=NAT)),
        schema("com.acme/ChargeReceipt@1", record(ref=TEXT)),
        module(),
        outside(),
        effect(CHARGE, "com.acme/ChargeParams@1", "com.acme/ChargeReceipt@1"),
        workflow(
            ORDER,
            "com.acme/OrderState@1",
            "com.acme/OrderEvent@1",
            key_schema="com.acme/OrderId@1",
            effects_emitted=[CHARGE],
            cap_slots={"pay": "effect"},
            **more,
        ),
        ALLOW,
        manifest(
            [{"event": CREATED, "workflow": ORDER, "key_field": "order_id"}],
            **allow_all("sys/effect@1", bindings={ORDER: {"pay": "effect"}}),
        ),
    ]


def order_flow(state: Any, event: Any, ctx: Any) -> Outcome:
    """Charge an order once; done when the receipt says ok."""
    tag, value = event["$tag"], event["$value"]
    if tag == "Created":
        new = {"order_id": value["order_id"], "phase": "charging", "attempt": 1, "ref": None}
        params = {"order_id": value["order_id"], "cents": value["amount_cents"]}
        return Outcome(new, effects=[{"effect": CHARGE, "params": params, "cap_slot": "pay"}])
    if tag == "Receipt":
        status = value["status"]["$tag"]
        if status == "ok":
            return Outcome({**state, "phase": "paid"}, status="completed", result=status)
        return Outcome(
            {**state, "phase": status},
            status="failed",
            reason={"code": "charge." + status, "message": "not charged"},
        )
    return Outcome({**state, "phase": tag})


FUNCTIONS = {("t/code@1", "order.flow"): order_flow}


def created(order_id: str, cents: int = 1250) -> dict[str, Any]:
    return {"order_id": order_id, "amount_cents": cents, "note": None}


# ---- the lab: a keyed workflow whose deeds a test writes ------------------------------------

LAB = "t/lab@1"
GO = "t/Go@1"
ASK = "t/ask@1"
SPAWN = "sys/workflow.spawn@1"
CALL = "sys/workflow.call@1"
READ = "sys/cell.read@1"
UNDO = "sys/effect.cancel@1"
TIMER = "sys/timer.set@1"
LAB_EFFECTS = [ASK, SPAWN, CALL, READ, UNDO, TIMER]
LAB_SLOTS = {"main": "effect", "time": "timer", "flow": "workflow"}
LAB_ARMS = {"Go": GO, "Receipt": RECEIPT, "Rejected": REJECTED, "Cancel": CANCEL}


def lab_schemas(lab_arms: dict[str, str]) -> list[dict[str, Any]]:
    """Shapes of the lab: an id and a deed come in, a log of what happened is the state."""
    return [
        schema("t/Id@1", TEXT),
        schema(GO, record(id=TEXT, do=TEXT, n=NAT)),
        schema("t/Event@1", arms(**lab_arms)),
        schema("t/State@1", record(id=TEXT, log={"list": TEXT})),
        schema("t/Ask@1", record(q=TEXT)),
        schema("t/Answer@1", record(a=TEXT)),
    ]


def lab_workflow(name: str = LAB, **more: Any) -> dict[str, Any]:
    """A lab workflow: keyed, all effects declared, one slot per kind of authority."""
    made = {
        "key_schema": "t/Id@1",
        "effects_emitted": LAB_EFFECTS,
        "reads": [name],
        "cap_slots": LAB_SLOTS,
        **more,
    }
    # A field given as None is left out: an unkeyed lab has no key_schema.
    kept = {field: value for field, value in made.items() if value is not None}
    return workflow(name, "t/State@1", "t/Event@1", **kept)


def lab_documents(
    *extra: dict[str, Any],
    lab_arms: dict[str, str] | None = None,
    subscriptions: list[dict[str, Any]] | None = None,
    flow: dict[str, Any] | None = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """The lab world; `extra` definitions, `flow` fields of the workflow, `more` of the manifest."""
    ways = [{"event": GO, "workflow": LAB, "key_field": "id"}]
    return [
        *lab_schemas(lab_arms or LAB_ARMS),
        module(),
        outside(),
        effect(ASK, "t/Ask@1", "t/Answer@1"),
        lab_workflow(**(flow or {})),
        ALLOW,
        *extra,
        manifest(ways if subscriptions is None else subscriptions, **{**lab_authority(), **more}),
    ]


def lab_authority(*workflows: str) -> dict[str, Any]:
    """Grants and bindings for the lab and other workflows with its slots."""
    bound = {"main": "effect", "time": "timer", "flow": "workflow"}
    bindings = {name: dict(bound) for name in (LAB, *workflows)}
    return allow_all("sys/effect@1", "sys/timer@1", "sys/workflow@1", bindings=bindings)


def lab_function(**deeds: Any) -> Any:
    """A reducer that does what the event's `do` names: `deed(next_state, value, ctx)`.

    A deed for an arm (`Receipt`, `Cancel`, ...) answers that arm; otherwise it is only logged.
    """

    def run(state: Any, event: Any, ctx: Any) -> Any:
        tag, value = event["$tag"], event["$value"]
        word = value["do"] if tag == "Go" else lab_word(tag, value)
        ident = value["id"] if tag == "Go" else state["id"]
        log = [*(state["log"] if state is not None else []), word]
        deed = deeds.get(value["do"] if tag == "Go" else tag)
        following = {"id": ident, "log": log}
        return Outcome(following) if deed is None else deed(following, value, ctx)

    return run


def lab_word(tag: str, value: Any) -> str:
    """How the log names what came."""
    if tag == "Receipt":
        return f"{value['status']['$tag']}:{value['issuer_ref'] or ''}"
    if tag == "Progress":
        return f"progress:{value['seq']}"
    return tag.lower()


def ask(q: str = "?", **more: Any) -> dict[str, Any]:
    """A request of the lab's own effect."""
    return {"effect": ASK, "params": {"q": q}, "cap_slot": "main", **more}


def go(ident: str, do: str = "note", n: int = 0) -> dict[str, Any]:
    """An event of the lab."""
    return {"id": ident, "do": do, "n": n}


# ---- the watch: a rest-between-events workflow that hears of faults and ends -----------------

WATCH = "t/watch@1"
FAULT = "sys/WorkflowFault@1"
DONE = "sys/WorkflowCompleted@1"


def watch_documents() -> list[dict[str, Any]]:
    """Definitions of the watch; its subscriptions are `WATCHING`."""
    return [
        schema("t/Seen@1", arms(Fault=FAULT, Done=DONE)),
        schema("t/Watch@1", record(log={"list": TEXT})),
        workflow(WATCH, "t/Watch@1", "t/Seen@1", lifecycle="entity"),
    ]


WATCHING = [{"event": FAULT, "workflow": WATCH}, {"event": DONE, "workflow": WATCH}]


def watch_function(state: Any, event: Any, _ctx: Any) -> Any:
    """Keep what was heard: `Fault:code` or `Done:status`."""
    value = event["$value"]
    word = value["code"] if event["$tag"] == "Fault" else value["status"]["$tag"]
    return {"log": [*(state["log"] if state else []), f"{event['$tag']}:{word}"]}
