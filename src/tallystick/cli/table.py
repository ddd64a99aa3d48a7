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
    provenance,
    reaction,
    secret,
    send,
    serve,
    token,
    trace,
    worker,
    workspace,
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
    *workspace.VERBS,
    *reaction.VERBS,
    *provenance.VERBS,
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
        "workspace": "watched directories",
        "reaction": "reactions to files, frames and commands",
        "reflection": "the same as reaction",
        "frame": "context that is attached to files and directories",
        "stamp": "who wrote which bytes",
        "provenance": "where outputs come from, and the proof",
        "key": "signing keys",
        "secret": "values that effects need and nobody sees",
        "token": "who may call",
    }
)
