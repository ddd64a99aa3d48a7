"""Scenes: what a run plays; the simulation brings the node, the disk, the clock and the faults.

A scene has its definitions, its code, its people and its outside, and a judge who has read the
same rules as the product and shares no code with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tallystick.kernel.inputs import Sample, Submit
from tallystick.kernel.world import World
from tallystick.model.abi import Runner
from tallystick.node.jobs import Published
from tallystick.testing.bundle import Bundle
from tallystick.testing.plan import Decision

Content = Callable[[bytes], bytes | None]


class Scene(Protocol):
    """One kind of run; a new one for each simulation."""

    @property
    def bundles(self) -> Sequence[Bundle]:
        """Two bundles of one program: the world begins with the first, activations go between."""
        ...

    @property
    def runner(self) -> Runner:
        """What runs the modules."""
        ...

    def frame(self, seq: int, records: Sequence[Any], content: Content) -> None:
        """Judge one durable frame; raises Violation."""
        ...

    def inputs(self, decision: Decision, sample: Sample) -> list[Any]:
        """What a `send` brings to the node."""
        ...

    def greeting(self, sample: Sample, ref: int) -> Submit:
        """An event that is welcome at any time."""
        ...

    def answer(self, job: Published) -> tuple[str, bytes]:
        """Status and payload of a sound executor, which is asked once for a dispatch key."""
        ...

    @property
    def remote(self) -> frozenset[str]:
        """The effects that workers do, under leases."""
        ...

    def usage(self, job: Published) -> Mapping[str, int] | None:
        """What a job has used up, as its receipt says."""
        ...

    def wanted(self, sample: Sample) -> list[Any]:
        """Inputs that move on what only people can, once faults have stopped."""
        ...

    def dues(self) -> list[int]:
        """When something is due."""
        ...

    def check_end(self, world: World) -> None:
        """After the end: nothing waits that should not, and the world is the judge's."""
        ...


class Plain:
    """What a scene without workers and budgets has to say about them."""

    remote: frozenset[str] = frozenset()

    def usage(self, job: Published) -> Mapping[str, int] | None:
        """Nothing that anybody counts."""
        del job
        return None


class NoArtifacts:
    """The store of a world whose modules are all built in."""

    def get(self, _digest: bytes, /) -> bytes | None:
        """Nothing."""
        return None
