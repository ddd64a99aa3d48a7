"""One run of the command line: where the node is, what it answered, and what is printed."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from tallystick.cli.client import TIMEOUT_S, Client, SocketClient, live_node
from tallystick.cli.problem import error_of
from tallystick.cli.request import Reply, Request
from tallystick.errors import NotOwner, Unavailable
from tallystick.node.config import Config, load_config

LOCKED_S: Final = 10.0
LOCKED_LOOK_S: Final = 0.1
WHOLE_S: Final = 86_400.0  # who reads every record of a journal is not hurried


@dataclass(frozen=True, slots=True)
class Globals:
    """The options that every command takes, before or after its words."""

    data: str | None = None
    url: str | None = None
    token: str | None = None
    world: str | None = None
    json: bool = False
    quiet: bool = False

    def over(self, given: Mapping[str, Any]) -> Globals:
        """These, where the later ones say nothing."""
        chosen = {key: given[key] or getattr(self, key) for key in self.__slots__}
        return Globals(**chosen)


class LiveCall:
    """The node is found when the first question is asked, and given back at the end."""

    def __init__(self, options: Globals) -> None:
        self.options = options
        self.console = Console(quiet=options.quiet or options.json, highlight=False)
        self._client: Client | None = None
        self._active = False
        self._executors: tuple[str, ...] = ()
        self._patience_s = TIMEOUT_S

    @property
    def world(self) -> str:
        """The world that `-w` names; `main` by default."""
        return self.options.world or "main"

    @property
    def _named(self) -> Path | None:
        """The data folder that was named; `.` and `..` are those folders, not their parents."""
        given = self.options.data or os.environ.get("TALLY_NODE_DATA")
        return Path(os.path.abspath(given)) if given else None  # noqa: PTH100  # links are kept

    @property
    def base(self) -> Path:
        """The folder of `tally.toml`: the parent of `--data`, else this one."""
        return Path.cwd() if self._named is None else self._named.parent

    @property
    def config(self) -> Config:
        """The settings of the folder; `--data` wins over all of them."""
        env = dict(os.environ)
        if self._named is not None:
            env["TALLY_NODE_DATA"] = json.dumps(self._named.name)
        return load_config(self.base, env)

    @property
    def data(self) -> Path:
        """The folder of the node's files."""
        return self.config.data

    def need_effects(self, executors: Sequence[str] = ()) -> None:
        """Say that a node opened for this command has to perform effects, not only to answer.

        `executors` are enabled in it besides those of the settings.
        """
        self._active = True
        self._executors = tuple(executors)

    def be_patient(self, seconds: float = WHOLE_S) -> None:
        """Wait for an answer this much longer than usual; unless given, for a whole journal."""
        self._patience_s = TIMEOUT_S + seconds

    def client(self) -> Client:
        """Whoever answers: `--url`, the node that serves the folder, or the files themselves."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _connect(self) -> Client:
        if self.options.url:
            token = self.options.token or os.environ.get("TALLY_TOKEN", "")
            return SocketClient(self.options.url, token, self._patience_s)
        found = live_node(self.data)
        if found is not None:
            url, token = found
            return SocketClient(url, self.options.token or token, self._patience_s)
        return self._here()

    def _here(self) -> Client:
        """The files themselves; a node that is just starting or stopping is waited for.

        It has the lock before it answers, and for a moment after it has stopped answering.
        """
        from tallystick.cli.here import HereClient  # noqa: PLC0415  # a node is a heavy import

        config = self._enabling(self.config)
        until = time.monotonic() + LOCKED_S
        while True:
            try:
                return HereClient(config, passive=not self._active)
            except NotOwner as why:
                if why.code != "node.locked" or time.monotonic() > until:
                    raise
            time.sleep(LOCKED_LOOK_S)
            found = live_node(config.data)
            if found is not None:
                token = self.options.token or found[1]
                return SocketClient(found[0], token, self._patience_s)

    def _enabling(self, config: Config) -> Config:
        held = config.executors
        more = tuple(name for name in self._executors if name not in held.enabled)
        return replace(config, executors=replace(held, enabled=(*held.enabled, *more)))

    def beside(self) -> Client:
        """A second connection to the same node; who takes it closes it."""
        return self.client().beside()

    def reply(self, request: Request) -> Reply:
        """The whole reply; a refusal is raised as the error it was."""
        reply = self.client().ask(request)
        if reply.status >= 400:
            raise error_of(reply)
        return reply

    def ask(self, request: Request) -> Any:
        """The JSON answer; an empty one is None."""
        body = self.reply(request).body
        try:
            return json.loads(body) if body else None
        except ValueError as why:
            raise Unavailable(
                "what answers there is no node: it speaks no JSON",
                code="node.bad_answer",
                where={"path": request.path},
                hint="compare --url with what `tally serve` says when it starts",
            ) from why

    @property
    def alone(self) -> bool:
        """True when nobody else can reach the node while this command runs."""
        return self.client().alone

    def pause(self, seconds: float) -> None:
        """Let time pass before asking again."""
        self.client().pause(seconds)

    def pour(self, request: Request) -> Iterator[bytes]:
        """The lines of a stream."""
        return self.client().pour(request)

    def say(self, text: str) -> None:
        """A line about work that takes a while; on the error stream, so that output stays whole."""
        if not (self.options.quiet or self.options.json):
            click.echo(text, err=True)

    def print_json(self, value: Any) -> None:
        """One object on one line of the output."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Give the node back."""
        if self._client is not None:
            self._client.close()
            self._client = None
