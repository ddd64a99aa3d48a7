"""How far something came that takes its time: told on the error stream while it runs.

The command waits for its one answer; a second connection asks every second what is under way.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, TypeVar

from tallystick.cli.client import Client
from tallystick.cli.request import Request
from tallystick.cli.verb import W, filled, flag
from tallystick.errors import TallyError

T = TypeVar("T")
EVERY_S: Final = 1.0
PROGRESS: Final = flag("progress", "tell every second how far it came")
_UNITS: Final = {"what-if": "inputs", "prove": "records"}


def with_progress(call: Any, act: Callable[[], T], *, wanted: bool) -> T:
    """Do something that a node needs long for; with `wanted` it is told how far it came."""
    if not wanted:
        return act()
    over = threading.Event()
    path = filled(W + "/reruns", call, {})
    ask, client = Request("GET", path), call.beside()
    teller = threading.Thread(target=_tell, args=(client, ask, over, call.say))
    teller.start()
    try:
        return act()
    finally:
        over.set()
        teller.join()


def _tell(
    client: Client, request: Request, over: threading.Event, say: Callable[[str], None]
) -> None:
    with closing(client):
        while not over.wait(EVERY_S):
            try:
                reply = client.ask(request)
            except TallyError:
                return  # who waits for the answer is told what is wrong
            if reply.status == 200:
                for row in json.loads(reply.body)["items"]:
                    say(line(row))


def line(row: dict[str, Any]) -> str:
    """One re-run in words."""
    kind, done, of = row["kind"], row["done"], row["of"]
    return f"{kind}: running" if of is None else f"{kind}: {done} of {of} {_UNITS[kind]}"
