"""`tally serve`, `tally dev`: a node in this terminal, until it is told to stop or cannot go on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tallystick.cli import show
from tallystick.cli.verb import AWAY, BAD, BROKEN, OK, Done, Options, Verb, arg, flag, opt
from tallystick.node.config import Config, load_config

SERVED = {"url": str, "stopped": str}
LISTEN = opt("listen", "address and port, 127.0.0.1:8255")
NO_OPEN = flag("no-open", "print the way in for a browser and open none")
UNTIL_IDLE = flag("until-idle", "stop when nothing is left to do")


def _serve(call: Any, options: Options) -> Done:
    from tallystick.cli.serving import Serving, run  # noqa: PLC0415  # a node is a heavy import

    serving = Serving(
        _config(call, options),
        call.world,
        sayer(call),
        bundle=options["bundle"],
        insecure=options["insecure"],
        until_idle=options["until_idle"],
    )
    return Done(run(serving))


def _dev(call: Any, options: Options) -> Done:
    from tallystick.cli.serving import Serving, run  # noqa: PLC0415  # as above

    serving = Serving(
        _config(call, {**options, "path": None}),
        call.world,
        sayer(call),
        bundle=options["path"],
        until_idle=options["until_idle"],
        dev=True,
        browse=not options["no_open"],
    )
    return Done(run(serving))


def _config(call: Any, options: Options) -> Config:
    """The settings of the folder, with the address that the command names."""
    config: Config = call.config
    if options["path"] and not call.options.data:
        config = load_config(Path(options["path"]).absolute(), os.environ)
    if options["listen"]:
        config = replace(config, http=replace(config.http, listen=options["listen"]))
    return config


def sayer(call: Any) -> Callable[..., None]:
    """How a node in this terminal speaks: lines on the error stream, JSON ones with `--json`."""

    def say(code: str, text: str, **more: Any) -> None:
        if call.options.quiet:
            return
        if call.options.json:
            click.echo(json.dumps({"code": code, "msg": text, **more}, default=str), err=True)
        else:
            click.echo(text, err=True)

    return say


VERBS = (
    Verb(
        "serve",
        "run a node in this terminal",
        _serve,
        (
            arg("path", required=False),
            LISTEN,
            opt("bundle", "make the world from this when it is not there yet"),
            UNTIL_IDLE,
            NO_OPEN,
            flag("insecure", "listen on an open address without TLS"),
        ),
        SERVED,
        show.nothing,
        frozenset({OK, BAD, AWAY, BROKEN}),
    ),
    Verb(
        "dev",
        "run a .py file, folder or bundle, and take up its changes",
        _dev,
        (arg("path"), LISTEN, UNTIL_IDLE, NO_OPEN),
        SERVED,
        show.nothing,
        frozenset({OK, BAD, AWAY, BROKEN}),
    ),
)
