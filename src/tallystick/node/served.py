"""Which executor performs which effect on this node (04 section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.executors.base import Executor, ExecutorPorts
from tallystick.node.node import Node


def serve_executors(node: Node, ports: ExecutorPorts, given: Sequence[Executor]) -> None:
    """Serve what the settings enable, then what was given; the later one has the effect."""
    del ports
    for executor in given:
        node.dispatch.serve(executor, (executor.name,))
