"""The smallest value of a schema: what a synthetic receipt says when nobody said anything."""

from __future__ import annotations

from tallystick.errors import BadDefinition, SchemaMismatch
from tallystick.values.schema import Admitted, Schema
from tallystick.values.schema.smallest import smallest as smallest_value


def smallest(schema: Schema) -> Admitted | None:
    """The smallest value of a schema; None where nothing small fits its bounds."""
    try:
        return schema.admit(smallest_value(schema.node))
    except (BadDefinition, SchemaMismatch):
        return None
