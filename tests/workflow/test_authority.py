"""An app that brings its own authority binds its slots itself, and gets no other grant."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.model.check import check_bundle
from tallystick.modules.source import bundle_of

APP = """
from tallystick import Bundle, Ctx, Effect, Record

app = Bundle(
    "shop",
    authority={"grants": [{"name": "pay", "cap": "sys/effect@1"}], "policies": ["shop/allow@1"]},
    bindings=BINDINGS,
    definitions=[
        {"$kind": "defpolicy", "name": "shop/allow@1", "rules": [{"id": "a", "decision": "allow"}]}
    ],
)


class Placed(Record):
    order_id: str


class Charged(Record):
    ref: str


class Charge(Effect[Charged], executor="payments"):
    token: str


class Order(Record):
    paid: bool = False


@app.workflow(key="order_id", effects=[Charge])
def orders(state: Order | None, event: Placed | Charge.Settled, ctx: Ctx) -> Order | None:
    match event:
        case Placed(order_id=order_id):
            ctx.effect(Charge(token=order_id))
        case Charge.Ok():
            return Order(paid=True)
    return state or Order()
"""


def bundle(bindings: str) -> Any:
    return bundle_of({"app.py": APP.replace("BINDINGS", bindings).encode()})


def built(bindings: str) -> dict[str, Any]:
    return dict(bundle(bindings).manifest)


@pytest.mark.clause("X-06")
def test_an_app_binds_its_own_slots() -> None:
    """06 section 1: `bindings` stand in the manifest, and structural authority adds nothing."""
    made = built('{"orders": {"effect": "pay"}}')
    assert made["module_bindings"] == {"shop/orders@1": {"slots": {"effect": "pay"}}}
    assert [grant["name"] for grant in made["authority"]["grants"]] == ["pay"]
    assert "structural/allow@1" not in str(made)


@pytest.mark.clause("X-06")
def test_a_slot_that_nobody_binds_is_told() -> None:
    """06 section 1 control: without a binding nothing is granted, and a wrong one is found."""
    assert "module_bindings" not in built("{}")
    codes = {
        name: [f.code for f in check_bundle(bundle(f'{{"orders": {{"effect": "{name}"}}}}'))]
        for name in ("pay", "nobody")
    }
    assert "cap.unbound" not in codes["pay"]
    assert "cap.unbound" in codes["nobody"]


def test_an_app_names_its_principals() -> None:
    """06 section 6: `governance` stands in the manifest; without it nobody is listed."""
    people = {"principals": [{"id": "ann", "kind": "human", "roles": ["finance"]}]}
    text = APP.replace("BINDINGS", "{}")
    made = bundle_of(
        {"app.py": text.replace("    bindings", f"    governance={people},\n    bindings").encode()}
    )
    assert made.manifest["governance"]["principals"][0]["roles"] == ["finance"]
    assert not built("{}").get("governance")
