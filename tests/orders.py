"""An order world: charge an order once, retry after a short pause, then add it up."""

from __future__ import annotations

from typing import Any, Final

from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.bundle_authority import structural_authority
from tallystick.model.bundle_python import python_bundle
from tallystick.model.definitions import refusal
from tallystick.model.manifest_sources import read_sources
from tallystick.modules.python import Outcome

PLACED: Final = "shop/Placed@1"
PAID: Final = "shop/Paid@1"
ORDERS: Final = "shop/orders@1"
LEDGER: Final = "shop/ledger@1"
CHARGE: Final = "shop/charge@1"
TIMER: Final = "sys/timer.set@1"
PAUSE_NS: Final = 1_000_000
TIMEOUT_NS: Final = 30_000_000_000

_TEXT: Final[dict[str, Any]] = {"text": {}}
_NAT: Final[dict[str, Any]] = {"nat": {}}


def _schema(name: str, **fields: Any) -> dict[str, Any]:
    return {"$kind": "defschema", "name": name, "type": {"record": fields}}


def _arms(name: str, **refs: str) -> dict[str, Any]:
    variant = {tag: {"ref": ref} for tag, ref in refs.items()}
    return {"$kind": "defschema", "name": name, "type": {"variant": variant}}


def documents(artifact: str, timeout_ns: int = TIMEOUT_NS) -> list[dict[str, Any]]:
    """The definitions and the manifest of the world."""
    return [*_schemas(), *_modules(artifact, timeout_ns), *_workflows(), _manifest()]


def _schemas() -> list[dict[str, Any]]:
    return [
        {"$kind": "defschema", "name": "shop/OrderId@1", "type": _TEXT},
        _schema(PLACED, order_id=_TEXT, cents=_NAT),
        _schema(PAID, order_id=_TEXT, cents=_NAT),
        _schema("shop/Order@1", order_id=_TEXT, cents=_NAT, phase=_TEXT, attempt=_NAT),
        _schema("shop/Total@1", orders=_NAT, cents=_NAT),
        _schema("shop/ChargeParams@1", token=_TEXT, cents=_NAT),
        _schema("shop/ChargeReceipt@1", ref=_TEXT),
        _arms(
            "shop/OrderEvent@1",
            Placed=PLACED,
            Receipt="sys/EffectReceiptEnvelope@1",
            Rejected="sys/EffectReceiptRejected@1",
        ),
    ]


def _modules(artifact: str, timeout_ns: int) -> list[dict[str, Any]]:
    source = {"kind": "python_bundle", "root_hash": artifact}
    return [
        {
            "$kind": "defmodule",
            "name": "shop/code@1",
            "runtime": {"kind": "python", "python": "3.11", "artifact": source},
        },
        {"$kind": "defmodule", "name": "shop/outside@1", "runtime": {"kind": "external"}},
        {
            "$kind": "defeffect",
            "name": CHARGE,
            "params": "shop/ChargeParams@1",
            "receipt": "shop/ChargeReceipt@1",
            "timeout_ns": timeout_ns,
            "impl": {"module": "shop/outside@1", "entrypoint": "payments"},
        },
    ]


def _workflows() -> list[dict[str, Any]]:
    return [
        {
            "$kind": "defworkflow",
            "name": ORDERS,
            "state": "shop/Order@1",
            "event": "shop/OrderEvent@1",
            "context": "sys/WorkflowContext@1",
            "key_schema": "shop/OrderId@1",
            "effects_emitted": [CHARGE, TIMER],
            "metadata": {"summary": "charge an order, once"},
            "impl": {"module": "shop/code@1", "entrypoint": "orders:orders"},
        },
        {
            "$kind": "defworkflow",
            "name": LEDGER,
            "state": "shop/Total@1",
            "event": PAID,
            "effects_emitted": [],
            "lifecycle": "entity",
            "metadata": {"summary": "sum up what was paid"},
            "impl": {"module": "shop/code@1", "entrypoint": "orders:ledger"},
        },
    ]


def _manifest() -> dict[str, Any]:
    subscriptions = [
        {"event": PLACED, "workflow": ORDERS, "key_field": "order_id"},
        {"event": PAID, "workflow": LEDGER},
    ]
    routing = {"subscriptions": subscriptions}
    return {"$kind": "manifest", "air_version": "2", "routing": routing}


def bundle(timeout_ns: int = TIMEOUT_NS, progress: str | None = None) -> Bundle:
    """The bundle of the world, with structural authority written out."""
    root, artifacts = python_bundle({"orders.py": b"# runs in the process of the test\n"})
    made = documents(root, timeout_ns)
    if progress is not None:
        next(each for each in made if each.get("name") == CHARGE)["progress"] = progress
    sources = structural_authority(read_sources(made))
    if sources.manifest is None:
        raise refusal(list(sources.findings))
    return make_bundle(sources.definitions, sources.manifest, artifacts)


# ---- the workflows --------------------------------------------------------------------------


def orders(state: Any, event: Any, ctx: Any) -> Outcome:
    """Charge; after an error wait and charge again under a new key and the same token."""
    tag, value = event["$tag"], event["$value"]
    if state is None and tag == "Placed":
        return _charge({**value, "phase": "charging", "attempt": 1})
    if state is None or tag != "Receipt":
        return Outcome(state)
    status = value["status"]["$tag"]
    if state["phase"] == "charging" and status == "ok":
        paid = {"order_id": state["order_id"], "cents": state["cents"]}
        return Outcome(
            {**state, "phase": "paid"},
            status="completed",
            result=state["order_id"],
            events=[{"schema": PAID, "value": paid}],
        )
    if state["phase"] == "charging" and state["attempt"] < 4:
        due = ctx["logical_now_ns"] + PAUSE_NS
        timer = {"effect": TIMER, "params": {"deliver_at_ns": due, "key": "retry"}}
        return Outcome({**state, "phase": "pausing"}, effects=[timer])
    if state["phase"] == "pausing" and value["effect"] == TIMER:
        return _charge({**state, "phase": "charging", "attempt": state["attempt"] + 1})
    reason = {"code": "payment." + status, "message": "the order could not be charged"}
    return Outcome({**state, "phase": "refused"}, status="failed", reason=reason)


def _charge(state: dict[str, Any]) -> Outcome:
    """A new key per attempt is a new intent; the same token is the same act outside."""
    charge = {
        "effect": CHARGE,
        "params": {"token": state["order_id"], "cents": state["cents"]},
        "idempotency_key": b"charge/%d" % state["attempt"],
        "issuer_ref": f"charge {state['attempt']}",
    }
    return Outcome(state, effects=[charge])


def ledger(state: Any, event: Any, ctx: Any) -> Any:
    """Add up what was paid."""
    del ctx
    total = state or {"orders": 0, "cents": 0}
    return {"orders": total["orders"] + 1, "cents": total["cents"] + event["cents"]}


FUNCTIONS: Final = {
    ("shop/code@1", "orders:orders"): orders,
    ("shop/code@1", "orders:ledger"): ledger,
}
