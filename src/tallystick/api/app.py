"""The application over a node: the table, the door, the tokens and the kept answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallystick.api.answers import Answers
from tallystick.api.front import Api
from tallystick.api.once import Keys
from tallystick.api.routes import OPEN, SCOPES, Table
from tallystick.api.table import METRICS, TABLE
from tallystick.api.who import EVERY_WORLD, Door, Identity, Tokens, hash_of, new_secret
from tallystick.node.node import Node

LOCAL: Final = "local"


def _table(node: Node) -> Table:
    """The routes of a node; its settings may open one of them, the figures."""
    if not node.config.metrics.open:
        return TABLE
    return Table(
        replace(route, scope=OPEN, whole_node=False) if route.path == METRICS else route
        for route in TABLE.routes
    )


async def make_app(node: Node, *, scheme: str = "http") -> Api:
    """The application over a node, with its tokens; `local` is a token of this process."""
    tokens = Tokens()
    for row in await node.read(lambda reader: reader.tokens()):
        if row.revoked_ns is None:
            scopes = frozenset(row.scopes)
            tokens.put(
                row.hash, Identity(row.id, row.principal, scopes, row.worlds, row.expires_ns)
            )
    keys = Keys(Answers(node.folder))
    api = Api(node, _table(node), Door(node.config.http.hosts, scheme), tokens, keys)
    api.local = new_secret(LOCAL)
    everything = Identity(LOCAL, LOCAL, frozenset(SCOPES), (EVERY_WORLD,))
    tokens.put(hash_of(api.local), everything)
    api.owner = everything
    return api
