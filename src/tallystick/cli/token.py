"""`tally token`: who may call this node, and what they may do."""

from __future__ import annotations

import time
from typing import Any

from tallystick.cli import shapes, show
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import Done, Options, Verb, arg, opt, posts, reads
from tallystick.node.config_read import duration_ns

SCOPES = ("read", "send")


def _create(call: Any, options: Options) -> Done:
    body: dict[str, Any] = {
        "principal": options["name"],
        "scopes": _words(options["scopes"]) or list(SCOPES),
        "worlds": _words(options["worlds"]) or ["*"],
    }
    if options["expires"]:
        body["expires_ns"] = time.time_ns() + duration_ns(options["expires"])
    return Done(call.ask(Request("POST", "/v1/tokens", body=body)))


def _words(given: tuple[str, ...]) -> list[str]:
    return [word for part in given for word in part.split(",") if word]


VERBS = (
    Verb(
        "token create",
        "make a token; it is shown once",
        _create,
        (
            arg("name"),
            opt("scopes", "what it may do (read,send)", multiple=True),
            opt("worlds", "where it may do it (all)", multiple=True),
            opt("expires", "after 24h, 30d, ..."),
        ),
        ANY,
    ),
    Verb(
        "token ls",
        "the tokens this node knows",
        reads("/v1/tokens"),
        (),
        shapes.items(ANY),
        show.columns("id", "principal", "scopes", "worlds", "expires_ns"),
    ),
    Verb(
        "token revoke",
        "forget a token",
        posts("/v1/tokens/{id}", method="DELETE"),
        (arg("id"),),
        ANY,
    ),
)
