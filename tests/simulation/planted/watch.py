"""Defects of reactions: who wrote the bytes that have changed."""

from __future__ import annotations

from tallystick.reactions import guards
from tests.simulation.planted.swap import swapped


def self_event_judged_by_path():
    def is_self(definition, place, _after, stamps):
        return any(stamp.reaction == definition.name for stamp in stamps.by_path(*place))

    return swapped((guards, "is_self", is_self))


DEFECTS = {"self-event judged by path": self_event_judged_by_path}
