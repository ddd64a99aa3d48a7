"""The fuel of one tick: its code once more in the lane, on values of the lane's own classes."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from tallystick.errors import TickFault
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.modules.lane import Space
from tallystick.modules.lane_runtime import LaneStop
from tallystick.testing.sources import Built
from tallystick.workflow.bundle import spec_of
from tallystick.workflow.ctx import Ctx


class Metered:
    """A workflow of a built app as the lane runs it."""

    def __init__(self, made: Built, catalogue: Catalogue, workflow: Workflow) -> None:
        held = made.bundle.blobs()
        root = str(catalogue.modules[workflow.module].artifact)
        self._space = Space(made.library.compiled(root, _Blobs(held)))
        self._spec = spec_of(self._space.find(workflow.entrypoint))
        self._catalogue = catalogue
        self._limit = workflow.limits.fuel

    def fuel(self, state: Any, event: Any, given: Any) -> int:
        """Run it; refuses with the code of the fault what the lane stops."""
        before, came = self._own(state), self._own(event)
        self._space.start(self._limit)
        try:
            self._spec.tick(before, came, Ctx(self._catalogue, self._spec.bundle, given))
        except LaneStop as stop:
            raise TickFault(stop.message, code=stop.code) from stop
        return self._space.meter.used

    def _own(self, value: Any) -> Any:
        """The same value, of the classes of the lane."""
        kind = type(value)
        if isinstance(value, list | tuple | set | frozenset):
            return kind([self._own(each) for each in value])
        if isinstance(value, dict):
            return {self._own(key): self._own(each) for key, each in value.items()}
        if isinstance(value, Enum):
            return self._class(kind)[value.name]
        if not dataclasses.is_dataclass(value):
            return value
        fields = {f.name: self._own(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return self._class(kind)(**fields)

    def _class(self, kind: Any) -> Any:
        """The class of the lane that stands where this one does; the kit's own are shared."""
        for module in self._space.modules.values():
            found: Any = module
            for part in kind.__qualname__.split("."):
                found = getattr(found, part, None)
            if found is not None:
                return found
        return kind


class _Blobs:
    """The blobs of one bundle."""

    def __init__(self, held: dict[bytes, bytes]) -> None:
        self._held = held

    def get(self, digest: bytes, /) -> bytes | None:
        return self._held.get(digest)
