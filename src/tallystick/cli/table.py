"""Every command of `tally`, in the order of its help; what is not listed does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tallystick.cli import (
    bench,
    bundle,
    care,
    carry,
    cell,
    check,
    demo,
    doctor,
    effect,
    gov,
    init,
    journal,
    key,
    lint,
    playbook,
    prove,
    secret,
    send,
    serve,
    token,
    trace,
    worker,
    world,
)
from tallystick.cli.verb import Verb

VERBS: Final[tuple[Verb, ...]] = (
    *init.VERBS,
    *demo.VERBS,
    *serve.VERBS,
    *send.VERBS,
    *world.VERBS,
    *cell.VERBS,
    *effect.VERBS,
    *journal.VERBS,
    *trace.VERBS,
    *prove.VERBS,
    *bundle.VERBS,
    *gov.VERBS,
    *lint.VERBS,
    *check.VERBS,
    *playbook.VERBS,
    *key.VERBS,
    *worker.VERBS,
    *secret.VERBS,
    *token.VERBS,
    *care.VERBS,
    *carry.VERBS,
    *doctor.VERBS,
    *bench.VERBS,
)
NOUNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "world": "worlds: one journal each",
        "cell": "cells: one instance of a workflow each",
        "effect": "effects that cells asked for",
        "journal": "what was written, in order",
        "ask": "questions that wait for a person",
        "bundle": "definitions and artifacts, the unit of upgrade",
        "gov": "changes of the bundle: propose, shadow, approve, apply",
        "playbook": "nets written in YAML, and their executions",
        "key": "signing keys",
        "secret": "values that effects need and nobody sees",
        "token": "who may call",
    }
)
# Nouns of the design that a later release brings; each answers plainly and ends with 2.
LATER: Final = (
    "frame",
    "provenance",
    "reaction",
    "reflection",
    "stamp",
    "why",
    "workspace",
)
