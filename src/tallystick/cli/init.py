"""`tally init`: a folder to begin with, from a template of the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import click

from tallystick.cli.verb import Done, Options, Verb, arg, opt
from tallystick.errors import Rejected

TEMPLATES: Final = ("hello", "orders")
# A template file is named as it lies in the package; a dot file would be left out of a wheel.
_NAMES: Final = {"gitignore.txt": ".gitignore"}


def template(name: str) -> dict[str, str]:
    """The files of a template by the name they get."""
    folder = files("tallystick.cli") / "templates" / name
    found = {}
    for path in sorted(folder.iterdir(), key=lambda each: each.name):
        made = _NAMES.get(path.name, path.name.removesuffix(".txt"))
        found[made] = path.read_text("utf-8")
    return found


def _init(call: Any, options: Options) -> Done:
    folder = Path(options["dir"])
    made = template(options["template"])
    taken = [name for name in made if (folder / name).exists()]
    if taken:
        raise Rejected(
            f"{folder / taken[0]} is there already; nothing was written",
            code="init.exists",
            where={"path": str(folder / taken[0])},
            hint="choose another folder, or move the file away",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (folder / name).write_text(text, "utf-8")
    call.say(f"next: cd {folder} && tally dev app.py")
    return Done({"path": str(folder), "template": options["template"], "files": sorted(made)})


VERBS = (
    Verb(
        "init",
        "a folder to begin with",
        _init,
        (
            arg("dir"),
            opt("template", "what to begin from", type=click.Choice(TEMPLATES), default="hello"),
        ),
        {"path": str, "template": str, "files": [str]},
    ),
)
