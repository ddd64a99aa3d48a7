"""`tally world export`, `world import`, `restore`: carry a world, or a whole folder, elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from tallystick.cli.effect import open_rows
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import Done, Options, Verb, W, arg, filled, flag, opt
from tallystick.errors import Rejected, Unavailable


@contextmanager
def journal_of(call: Any) -> Iterator[Any]:
    """A read-only look at the journal of this folder; a running node goes on beside it."""
    from tallystick.journal.sqlite_read import DATABASE, SqliteReader  # noqa: PLC0415  # heavy

    if call.options.url:
        raise Rejected("an export reads the files of a folder", code="request.usage", hint="--data")
    if not (call.data / DATABASE).exists():
        raise Unavailable(
            f"{call.data} holds no journal", code="node.no_data", hint="name the folder by --data"
        )
    reader = SqliteReader(call.data)
    try:
        yield reader
    finally:
        reader.close()


def _export(call: Any, options: Options) -> Done:
    if sum(options[form] for form in ("bundle", "jsonl", "site")) != 1:
        raise Rejected("choose --bundle, --jsonl or --site", code="request.usage")
    if options["site"]:
        return Done(_site(call, options))
    with journal_of(call) as reader:
        world = reader.resolve(call.world)
        if options["bundle"]:
            return Done(_bundle(reader, world, options))
        return Done(_jsonl(reader, world, options))


def _site(call: Any, options: Options) -> dict[str, Any]:
    from tallystick.cli.site import export_site  # noqa: PLC0415  # only here

    if not options["output"]:
        raise Rejected("name a folder with -o", code="request.usage")
    span = (options["from"] or 1, options["to"])
    return export_site(call, Path(options["output"]), span, options["cell"])


def _bundle(reader: Any, world: str, options: Options) -> dict[str, Any]:
    from tallystick.journal.export import export_bundle  # noqa: PLC0415  # heavy

    if not options["output"]:
        raise Rejected("name a file with -o", code="request.usage")
    if options["from"] is not None or options["to"] is not None or options["cell"]:
        raise Rejected("a bundle holds the whole world", code="request.usage")
    path = Path(options["output"])
    with _aside(path) as file:
        made = export_bundle(reader, world, file)
    return {**made._asdict(), "path": str(path)}


@contextmanager
def _aside(path: Path) -> Iterator[BinaryIO]:
    """A file beside its place first: a cut export never looks like a whole one."""
    aside = path.with_name(path.name + ".part")
    try:
        with aside.open("wb") as file:
            yield file
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _jsonl(reader: Any, world: str, options: Options) -> dict[str, Any] | None:
    from tallystick.journal.export import export_jsonl  # noqa: PLC0415  # heavy

    first, last, head = options["from"], options["to"], reader.head(world).seq
    if not 1 <= (1 if first is None else first) <= (head if last is None else last) <= head:
        raise Rejected(
            f"the journal has no lines from {first or 1} to {head if last is None else last}",
            code="export.bad_range",
            where={"head": head},
            hint=f"it has those from 1 to {head}",
        )
    lines = export_jsonl(reader, world, first, last, options["cell"])
    if not options["output"]:
        sys.stdout.writelines(lines)
        return None
    with _aside(Path(options["output"])) as file:
        file.writelines(line.encode() for line in lines)
    return {"world": world, "path": options["output"]}


def _import(call: Any, options: Options) -> Done:
    """Verified first; the folder must be free, because the node that runs does not know it yet."""
    from tallystick.cli.here import HereClient  # noqa: PLC0415  # a node is a heavy import

    if call.options.url:
        raise Rejected("an import writes into a folder", code="request.usage", hint="--data")
    path, name = Path(options["file"]), options["name"]
    if not path.is_file():
        raise Rejected(f"{path} is not there", code="export.not_found", where={"path": str(path)})
    client = HereClient(call.config, passive=True)
    try:
        world = client.run(lambda node: _imported(node, path, name))
    finally:
        client.close()
    return Done({"world": world, "name": name})


async def _imported(node: Any, path: Path, name: str) -> str:
    from tallystick.journal.imports import import_world  # noqa: PLC0415  # heavy

    node.check_alias(name)
    world: str = await node.write(lambda held: import_world(path, held, name))
    return world


def _restore(call: Any, options: Options) -> Done:
    from tallystick.journal.backup import restore  # noqa: PLC0415  # heavy

    into = Path(options["into"]).absolute()
    call.say("verifying the backup before anything is written ...")
    listed = restore(Path(options["src"]), into)
    return Done(
        {
            "backup": listed.id,
            "into": str(into),
            "worlds": [row._asdict() for row in listed.worlds],
            "held": _after(call, into, options["effects"]),
        }
    )


def _after(call: Any, into: Path, effects: str) -> int:
    """How many effects are held until somebody releases them; all of them, unless told else."""
    from tallystick.cli.call import Globals, LiveCall  # noqa: PLC0415  # the restored folder's own

    there = LiveCall(Globals(data=str(into), quiet=True))
    held = 0
    try:
        for row in there.ask(Request("GET", "/v1/worlds"))["items"]:
            there.options = Globals(data=str(into), world=row["world"], quiet=True)
            for each in open_rows(there, held=True):
                held += 1
                # What waits for an approval or a flow waited before, and is not ours to release.
                if effects == "republish" and each["hold"]["kind"] == "restore":
                    path = filled(W + "/effects/{intent}/release", there, each)
                    there.ask(Request("POST", path, body={"reason": "restore --effects republish"}))
                    held -= 1
    finally:
        there.close()
    del call
    return held


OUTPUT = click.Option(["-o", "--output"], help="file to write")

VERBS = (
    Verb(
        "world export",
        "a world in one file that verifies alone, as lines of JSON, or as a site",
        _export,
        (
            flag("jsonl", "one record a line, for people and pipes"),
            flag("bundle", "everything, to verify or import elsewhere"),
            flag("site", "a folder of plain files that any file server shows"),
            OUTPUT,
            opt("from", "first sequence of the lines", type=int),
            opt("to", "last sequence of the lines", type=int),
            opt("cell", "WORKFLOW KEY: the history of one cell", nargs=2),
        ),
        ANY,
    ),
    Verb(
        "world import",
        "take a world from an export",
        _import,
        (arg("file"), arg("name")),
        {"world": str, "name": str},
    ),
    Verb(
        "restore",
        "a new folder from a backup; open effects are held",
        _restore,
        (
            arg("src"),
            opt("into", "folder to make", required=True),
            opt(
                "effects",
                "what becomes of open effects",
                type=click.Choice(["hold", "republish"]),
                default="hold",
            ),
        ),
        {"backup": str, "into": str, "worlds": [ANY], "held": int},
    ),
)
