"""`tally token`: who may call this node, and what they may do."""

from __future__ import annotations

import time
from typing import Any

from tallystick.cli import shapes, show
from tallystick.cli.client import live_node
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import Done, Options, Verb, arg, flag, opt, posts, reads
from tallystick.errors import Unavailable
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
    if not options["ui"]:
        return Done(call.ask(Request("POST", "/v1/tokens", body=body)))
    url = call.options.url or _url(call)
    made = call.ask(Request("POST", "/v1/tokens", body={**body, "ui": True}))
    made["login"]["url"] = url.rstrip("/") + made["login"].pop("path")
    return Done(made)


def _url(call: Any) -> str:
    """Where the node of this folder listens; a session lives in a process, so one has to run."""
    found = live_node(call.data)
    if found is None:
        raise Unavailable(
            "a browser needs a running node",
            code="node.not_running",
            hint="start one with `tally serve`",
        )
    return found[0]


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
            flag("ui", "also a link that lets a browser in, once and within two minutes"),
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
