"""Which executor performs which effect on this node (04 section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.executors.base import Executor, ExecutorPorts
from tallystick.node import asks
from tallystick.node.node import Node
from tallystick.node.work import pool_of


def serve_executors(node: Node, ports: ExecutorPorts, given: Sequence[Executor]) -> None:
    """Serve what the settings enable, then what was given; routes have the last word."""
    del ports
    settings = node.config.executors
    for executor in given:
        on_restart = str(settings.of(executor.name).get("on_restart", "repeat"))
        node.dispatch.serve(executor, (executor.name,), on_restart)
    node.dispatch.divert(asks.EFFECT, node.asks.take)
    node.dispatch.on_settled += [node.asks.settled, node.work.settled]
    for name, route in settings.routes.items():
        node.dispatch.divert(name, node.work.taker(pool_of(str(route))))
