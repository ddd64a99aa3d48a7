"""`tally worker`: an executor in this process, for a node on any machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, Final

import click

from tallystick.cli import show
from tallystick.cli.client import live_node, reachable
from tallystick.cli.verb import SOME_SECONDS, Done, Options, Verb, opt
from tallystick.errors import Rejected, Unavailable
from tallystick.node.keys import WORKER, KeyFile, find_key, read_keys

SLOTS_MAX: Final = 1000  # as many as one request for work may ask for


def _worker(call: Any, options: Options) -> Done:
    from tallystick.cli.work_line import Place  # noqa: PLC0415  # an HTTP client, only here
    from tallystick.cli.working import run  # noqa: PLC0415  # likewise

    url, token = _address(call)
    place = Place(
        url,
        token,
        options["name"] or f"{socket.gethostname()}-{os.getpid()}",
        tuple(options["pool"]),
        options["slots"],
        int(options["lease"] * 1000),
    )
    key = _key(call.data / "keys", options["key"])
    call.say(f"working for {url}, sealing with {key.pair.key_id}")
    return Done(run(place, options["executor"], key.pair, call))


def _address(call: Any) -> tuple[str, str]:
    if call.options.url:
        token = call.options.token or os.environ.get("TALLY_TOKEN", "")
        return reachable(call.options.url, token)
    found: tuple[str, str] | None = live_node(call.data)
    if found is None:
        raise Unavailable(
            f"no node serves {call.data}",
            code="node.not_running",
            hint="give --url and --token, or start one with `tally serve`",
        )
    return reachable(found[0], call.options.token or found[1])


def _key(folder: Path, key_id: str | None) -> KeyFile:
    if key_id is not None:
        return find_key(folder, key_id)
    mine = [key for key in read_keys(folder) if key.use == WORKER]
    if len(mine) != 1:
        raise Rejected(
            f"{folder} holds {len(mine)} keys for workers",
            code="key.ambiguous" if mine else "key.unknown",
            hint="make one with `tally key new`, trust it with `tally key trust`, name it by --key",
        )
    return mine[0]


VERBS = (
    Verb(
        "worker",
        "perform effects of a node from here",
        _worker,
        (
            opt("executor", "package.module:Name of what performs", required=True),
            opt("pool", "pool to take work from", multiple=True),
            opt("slots", "jobs at a time", type=click.IntRange(1, SLOTS_MAX), default=4),
            opt("key", "id of the key that seals"),
            opt(
                "lease", "seconds that a job is ours without news", type=SOME_SECONDS, default=30.0
            ),
            opt("name", "how the node calls this worker"),
        ),
        {"settled": int, "lost": int},
        show.fields,
    ),
)
