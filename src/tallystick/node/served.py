"""Which executor performs which effect on this node (04 section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.executors.base import Executor, ExecutorPorts
from tallystick.executors.catalogue import WITHOUT_JOBS, make_executor
from tallystick.node import asks
from tallystick.node.node import Node
from tallystick.node.work import pool_of


def serve_executors(node: Node, ports: ExecutorPorts, given: Sequence[Executor]) -> None:
    """Serve what the settings enable, then what was given; routes have the last word.

    A route leads an effect, or whatever asks for an executor by name, to an enabled executor or to
    a pool of remote workers.
    """
    settings, dispatch = node.config.executors, node.dispatch
    made = {
        name: make_executor(name, settings.of(name), ports)
        for name in settings.enabled
        if name not in WITHOUT_JOBS
    }
    for executor in (*made.values(), *given):
        on_restart = str(settings.of(executor.name).get("on_restart", "repeat"))
        dispatch.serve(executor, (executor.name,), on_restart)
    dispatch.divert(asks.EFFECT, node.asks.take)
    dispatch.on_settled += [node.asks.settled, node.work.settled]
    for name, route in settings.routes.items():
        if route in made:
            dispatch.serve(made[route], (name,))
        else:
            dispatch.divert(name, node.work.taker(pool_of(str(route))))
