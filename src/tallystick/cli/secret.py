"""`tally secret`: values for `store:` bindings; they go into the vault and never come out here."""

from __future__ import annotations

import getpass
import os
import sys
from typing import Any

from tallystick.cli import shapes, show
from tallystick.cli.verb import Done, Options, Verb, arg
from tallystick.errors import Rejected


def _vault(call: Any) -> Any:
    from tallystick.executors.vault import Vault  # noqa: PLC0415  # cryptography, only here

    return Vault(call.data, os.environ)


def _set(call: Any, options: Options) -> Done:
    """Read the value without showing it: from the terminal, or the first line of a pipe."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"value of {options['name']}: ")
    else:
        value = _piped()
    call.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    _vault(call).set(options["name"], value)
    return Done({"name": options["name"], "set": True})


def _piped() -> str:
    """The first line of a pipe; refuses bytes that are no text in UTF-8."""
    try:
        return sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError as why:
        raise Rejected(
            "the value is no text in UTF-8",
            code="secret.file",
            hint="a secret is text; write other bytes in base64 and say so to who reads it",
        ) from why


def _list(call: Any, _options: Options) -> Done:
    rows = [{"name": name} for name in _vault(call).names()]
    return Done({"items": rows, "next": None, "as_of": None})


def _remove(call: Any, options: Options) -> Done:
    _vault(call).remove(options["name"])
    return Done({"name": options["name"], "removed": True})


VERBS = (
    Verb(
        "secret set",
        "keep a value, read from the input",
        _set,
        (arg("name"),),
        {"name": str, "set": bool},
    ),
    Verb(
        "secret ls",
        "names, never values",
        _list,
        (),
        shapes.items({"name": str}),
        show.columns("name"),
    ),
    Verb("secret rm", "forget a value", _remove, (arg("name"),), {"name": str, "removed": bool}),
)
