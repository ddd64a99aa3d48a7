"""Which executor performs which effect on this node (04 section 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallystick.executors.base import Executor, ExecutorPorts
from tallystick.executors.catalogue import WITHOUT_JOBS, make_executor
from tallystick.node import asks, inworld
from tallystick.node.config_executors import ExecutorSettings
from tallystick.node.node import Node
from tallystick.node.work import pool_of


def serve_executors(node: Node, ports: ExecutorPorts, given: Sequence[Executor]) -> None:
    """Serve what the settings enable, then what was given; routes have the last word.

    A route leads an effect, or whatever asks for an executor by name, to an executor of this node,
    whose slots it shares, or to a pool of remote workers.
    Refuses with `executor.*` a name that nobody brings, and with `config.route` a route to nobody.
    """
    settings, dispatch = node.config.executors, node.dispatch
    named = {
        name: make_executor(name, _settings(settings, name), ports)
        for name in settings.enabled
        if name not in WITHOUT_JOBS
    }
    named |= {executor.name: executor for executor in given}
    for name, executor in named.items():
        on_restart = str(settings.of(name).get("on_restart", "repeat"))
        dispatch.serve(executor, (name,), on_restart)
    if asks.NAME in settings.enabled:
        dispatch.divert(asks.EFFECT, node.asks.take)
    for effect in inworld.EFFECTS:
        dispatch.divert(effect, node.inworld.take)
    dispatch.on_settled += [node.outside.settled, node.asks.settled, node.work.settled]
    for name, route in settings.routes.items():
        if route in named:
            dispatch.route(name, route)
        else:
            dispatch.divert(name, node.work.taker(pool_of(str(route))))


def _settings(settings: ExecutorSettings, name: str) -> Mapping[str, Any]:
    """The settings of one executor; a playbook's tools are those that are enabled here."""
    if name != "playbook":
        return settings.of(name)
    tools = {other: settings.of(other) for other in settings.enabled if other != name}
    return {**settings.of(name), "tools": tools}
