"""Every command of `tally`, in the order of its help; what is not listed does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tallystick.cli import bundle, cell, effect, journal, key, prove, send, token, trace, world
from tallystick.cli.verb import Verb

COMMANDS: Final[tuple[Verb, ...]] = (
    *send.COMMANDS,
    *world.COMMANDS,
    *cell.COMMANDS,
    *effect.COMMANDS,
    *journal.COMMANDS,
    *trace.COMMANDS,
    *prove.COMMANDS,
    *bundle.COMMANDS,
    *key.COMMANDS,
    *token.COMMANDS,
)
NOUNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "world": "worlds: one journal each",
        "cell": "cells: one instance of a workflow each",
        "effect": "effects that cells asked for",
        "journal": "what was written, in order",
        "ask": "questions that wait for a person",
        "bundle": "definitions and artifacts, the unit of upgrade",
        "key": "signing keys",
        "token": "who may call",
    }
)
# Nouns of the design that a later release brings; each answers plainly and ends with 2.
LATER: Final = (
    "check",
    "frame",
    "gov",
    "lint",
    "playbook",
    "provenance",
    "reaction",
    "reflection",
    "stamp",
    "why",
    "workspace",
)
