"""Questions that wait for a person: what is asked, of whom, and until when."""

from __future__ import annotations

from typing import Any, Final

from tallystick.kernel.leaves import read_blob
from tallystick.kernel.world import World
from tallystick.values import canon
from tallystick.views.effects import EffectFilter, effect_list
from tallystick.views.pages import Page
from tallystick.views.shown import json_of
from tallystick.views.waiting import ASK, Serving

QUESTION: Final = ("title", "body", "choices", "form", "to", "default", "expires_at_ns")


def ask_list(world: World, page: Page, serving: Serving | None = None) -> dict[str, Any]:
    """A page of open asks, each with its question."""
    found = effect_list(world, page, EffectFilter(effect=ASK), serving)
    found["items"] = [{**row, **_question(world, row["intent"])} for row in found["items"]]
    return found


def _question(world: World, intent: str) -> dict[str, Any]:
    known = world.intents.get(canon.raw_of(intent))
    assert known is not None, "it was listed as open just now"
    params = known.record.params
    if params is None:
        assert known.record.params_hash is not None, "parameters stand inline or by digest"
        params = read_blob(world.blobs, known.record.params_hash)
    asked = canon.decode(params)
    return {name: json_of(asked.get(name)) for name in QUESTION}
