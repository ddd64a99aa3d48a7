"""`tally bundle`: build, check, compare and show the unit of upgrade; no node is needed.

The work lies in `cli/bundle_work.py`: it needs the whole model, which other commands should not
wait for.
"""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from tallystick.cli.shape import ANY, HASH
from tallystick.cli.verb import Done, Options, Run, Show, Verb, arg, flag, opt


def _runs(name: str) -> Run:
    def run(call: Any, options: Options) -> Done:
        from tallystick.cli import bundle_work  # noqa: PLC0415  # see above

        done: Done = getattr(bundle_work, name)(call, options)
        return done

    return run


def _shows(name: str) -> Show:
    def show(console: Console, value: Any) -> None:
        from tallystick.cli import bundle_work  # noqa: PLC0415  # see above

        getattr(bundle_work, name)(console, value)

    return show


AUTHORITY = opt(
    "authority",
    "structural: one grant per type in use, everything asked for allowed",
    type=click.Choice(["structural"]),
)
FINDING = {"code": str, "def": str, "path": str, "message": str, "hint": str, "level": str}

VERBS = (
    Verb(
        "bundle build",
        "build a bundle from sources",
        _runs("build_path"),
        (
            arg("path"),
            click.Option(["-o", "--output"], help="file to write"),
            AUTHORITY,
            opt("vendor", "a pure package that goes along: a wheel or its folder", multiple=True),
            flag("plays", "for a world that also plays playbooks"),
            flag("reacts", "for a world that also reacts to files, and plays playbooks"),
        ),
        {"bundle": HASH, "path": str, "size": int},
    ),
    Verb(
        "bundle check",
        "everything that is wrong with sources or a bundle, in one run",
        _runs("check_path"),
        (
            arg("path"),
            opt("against", "what must not change: a bundle, or `active` for that of the world"),
            flag("canonical", "print the canonical definitions"),
            flag("strict", "warnings count"),
            AUTHORITY,
        ),
        {"ok": bool, "errors": int, "warnings": int, "findings": [FINDING], "canonical": ANY},
        _shows("report"),
    ),
    Verb(
        "bundle diff",
        "which definitions differ",
        _runs("diff_paths"),
        (arg("a"), arg("b")),
        {"equal": bool, "added": [str], "removed": [str], "changed": [str]},
    ),
    Verb(
        "bundle seal",
        "answer for a bundle: Python that is proposed elsewhere, WASM that runs in the node itself",
        _runs("seal_path"),
        (
            arg("path"),
            opt("key", "id of a key of this folder; else the key of its node"),
            click.Option(["-o", "--output"], help="file to write; else the bundle itself"),
        ),
        {"bundle": HASH, "path": str, "key": str, "seals": int},
    ),
    Verb(
        "bundle show",
        "what is in a bundle",
        _runs("show_path"),
        (arg("path"), AUTHORITY),
        {
            "bundle": HASH,
            "manifest": HASH,
            "definitions": [{"kind": str, "name": str, "hash": HASH}],
            "artifacts": [{"hash": HASH, "media": str, "size": int, "instances": str}],
            "sealed_by": [str],
            "routing": ANY,
        },
        _shows("contents"),
    ),
)
