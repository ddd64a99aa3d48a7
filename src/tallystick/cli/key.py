"""`tally key`: signing keys of this folder, and which keys a world trusts."""

from __future__ import annotations

from typing import Any

from tallystick.cli import shapes, show
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import AT, REASON, Done, Options, Verb, W, arg, filled, opt, picked, posts
from tallystick.errors import Rejected
from tallystick.node.keys import WORKER, find_key, new_key, read_keys


def _own(call: Any, options: Options) -> Done:
    """The keys on disk, and what the world trusts; the folder of a worker has no world."""
    rows = [
        {"key": key.pair.key_id, "public_key": key.public_text(), "use": key.use}
        for key in read_keys(call.data / "keys")
    ]
    trusted: list[Any] = []
    if call.options.url or (call.data / "tally.db").exists():
        query = picked(("at",), options)
        trusted = call.ask(Request("GET", filled(W + "/keys", call, {}), query))["items"]
    return Done({"items": rows, "next": None, "as_of": None, "trusted": trusted})


def _new(call: Any, _options: Options) -> Done:
    made = new_key(call.data / "keys", WORKER)
    found = {"key": made.pair.key_id, "public_key": made.public_text(), "path": str(made.path)}
    return Done(found)


def _trust(call: Any, options: Options) -> Done:
    public = options["key"]
    if len(public) == 16:
        public = find_key(call.data / "keys", public).public_text()
    if len(public) != 64:
        raise Rejected(
            f"{options['key']!r} is no key",
            code="key.unknown",
            hint="give the 64 hex digits of a public key, or the id of a key of this folder",
        )
    body = {
        "public_key": public,
        "executors": list(options["executors"]),
        "effects": list(options["effects"]),
    }
    return Done(call.ask(Request("POST", filled(W + "/keys", call, {}), body=body)))


KEY = {"key": str, "public_key": str, "use": str}

VERBS = (
    Verb(
        "key ls",
        "the keys of this folder and those the world trusts",
        _own,
        (AT,),
        {**shapes.items(KEY), "trusted": [ANY]},
        show.columns("key", "use", "public_key"),
    ),
    Verb(
        "key new",
        "make a signing key for a worker",
        _new,
        (),
        {"key": str, "public_key": str, "path": str},
    ),
    Verb(
        "key trust",
        "trust a key for executors and effects, from now on",
        _trust,
        (
            arg("key"),
            opt("executors", "executor it may speak for", multiple=True, default=("*",)),
            opt("effects", "effect it may settle", multiple=True, default=("*",)),
        ),
        ANY,
    ),
    Verb(
        "key revoke",
        "stop trusting a key",
        posts(W + "/keys/{key}", "reason", method="DELETE"),
        (arg("key"), REASON),
        ANY,
    ),
)
