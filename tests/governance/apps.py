"""A counter in three versions, as source text: what proposals are made of in these tests."""

from __future__ import annotations

from typing import Any

from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.manifest_sources import canonical_sources
from tallystick.modules.source import bundle_of

SOURCE = '''
"""A counter that may ask the outside."""

from tallystick import Bundle, Ctx, Effect, Nat, Record

app = Bundle("till")


class Sold(Record):
    till: str
    cents: Nat


class Printed(Record):
    number: Nat


class Print(Effect[Printed], executor="printer", timeout="1h"):
    cents: Nat


class Till(Record):
    cents: Nat = 0
    receipts: Nat = 0


@app.workflow(key="till", lifecycle="entity", effects=[Print])
def till(state: Till | None, event: Sold | Print.Settled, ctx: Ctx) -> Till:
    held = state or Till()
    match event:
        case Sold(cents=cents):
            if cents > 100:
                ctx.effect(Print(cents=cents), key=f"sale/{ctx.seq}")
            return held.replace(cents=held.cents + STEP * cents)
        case Print.Ok():
            return held.replace(receipts=held.receipts + 1)
    return held
'''
SOLD = "till/Sold@1"
TILL = "till/till@1"
PRINT = "till/Print@1"


def source(step: int = 1) -> bytes:
    """The text of a version: each counts in other steps."""
    return SOURCE.replace("STEP", str(step)).encode()


def app(step: int = 1, **sections: Any) -> Bundle:
    """A version as a bundle, with these sections in its manifest."""
    made: Bundle = bundle_of({"app.py": source(step)})
    if not sections:
        return made
    artifacts = {hash_: held.data for hash_, held in made.artifacts.items()}
    definitions, manifest = canonical_sources([made.definitions(), {**made.manifest, **sections}])
    return make_bundle(definitions, manifest, artifacts)
