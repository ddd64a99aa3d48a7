"""The closure of a workflow: one digest over all that decides how its ticks run.

A workflow's own hash names its module and its schemas; two manifests may mean different things by
one name, so equal hashes alone prove nothing.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.values import canon
from tallystick.values.schema import Schema


def closure_of(catalogue: Catalogue, name: str) -> bytes:
    """The digest of a workflow of the catalogue with its code, shapes, effects and limits."""
    workflow = catalogue.workflows[name]
    body: dict[str, Any] = {
        "workflow": workflow.hash,
        "module": workflow.module_hash,
        "shapes": [_shape(each) for each in _schemas(workflow)],
        "emits": _emitted(catalogue),
        "effects": [_effect(catalogue, effect) for effect in sorted(workflow.effects_emitted)],
        "limits": asdict(workflow.limits),
    }
    return canon.digest(body)


def _schemas(workflow: Workflow) -> tuple[Schema | None, ...]:
    return workflow.state, workflow.event, workflow.annotations, workflow.key


def _shape(schema: Schema | None) -> list[str] | None:
    return None if schema is None else [schema.name, schema.shape_hash]


def _emitted(catalogue: Catalogue) -> list[list[str]]:
    """Any schema of a bundle may be emitted, so all of them are in its closure."""
    own = (s for name, s in sorted(catalogue.schemas.items()) if not name.startswith("sys/"))
    return [[schema.name, schema.shape_hash] for schema in own]


def _effect(catalogue: Catalogue, name: str) -> list[Any]:
    effect = catalogue.effects.get(name)
    if effect is None:
        return [name]
    shapes = (effect.params, effect.receipt, effect.error, effect.progress)
    return [effect.hash, effect.module_hash, *(_shape(each) for each in shapes)]
