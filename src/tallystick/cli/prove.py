"""`tally replay`, `tally verify`: run it again and compare; check every hash and seal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from tallystick.cli import shapes, show
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.verb import BROKEN, NO, OK, Done, Options, Verb, W, filled, flag, opt, picked
from tallystick.errors import Rejected, TallyError
from tallystick.node.keys import read_keys

_DAMAGE: Final = frozenset({"export", "bundle", "journal", "cbor"})
_NO_DAMAGE: Final = frozenset({"bundle.not_found", "export.not_found"})


def _replay(call: Any, options: Options) -> Done:
    body = picked(("workflow",), options)
    if options["from"] not in (None, "genesis"):
        body["from_seq"] = _seq(options["from"])
    if options["to"] is not None:
        body["to_seq"] = options["to"]
    call.say("running every tick again ...")
    call.be_patient()
    found = call.ask(Request("POST", filled(W + "/replay", call, {}), body=body))
    return Done(found, OK if found["ok"] else BROKEN)


def _seq(word: str) -> int:
    if not word.isdigit():
        raise Rejected(f"{word!r} is neither genesis nor a sequence", code="request.usage")
    return int(word)


def _equal(console: Console, value: Any) -> None:
    show.fields(console, value)
    if value["ok"]:
        console.print("[green]equal[/]")
        return
    console.print("[red]NOT EQUAL[/]")
    if value["first_divergence"]:
        console.print(escape(f"first: {show.text_of(value['first_divergence'])}"), soft_wrap=True)


def _verify(call: Any, options: Options) -> Done:
    chosen = [level for level in ("quick", "full", "replay") if options[level]]
    if len(chosen) > 1:
        raise Rejected("choose one of --quick, --full, --replay", code="request.usage")
    level = chosen[0] if chosen else "full"
    call.say(f"verifying, {level} ...")
    if options["bundle"]:
        return _verify_file(Path(options["bundle"]), options["checkpoints"])
    if options["checkpoints"]:
        return _verify_beside(call, level, Path(options["checkpoints"]))
    call.be_patient()
    body = {"level": level}
    return _judged(call.ask(Request("POST", filled(W + "/verify", call, {}), body=body)))


def _judged(found: Any) -> Done:
    return Done(found, OK if found["ok"] else NO)


def _verify_beside(call: Any, level: str, copies: Path) -> Done:
    """Against checkpoints that were kept elsewhere: read here, whoever else writes."""
    from tallystick.cli.carry import journal_of  # noqa: PLC0415  # heavy
    from tallystick.journal.checkpoints import read_file  # noqa: PLC0415  # heavy
    from tallystick.journal.verify import verify  # noqa: PLC0415  # heavy

    if level == "replay":
        raise Rejected("--checkpoints goes with --quick or --full", code="request.usage")
    keys = {key.pair.key_id: key.pair.public for key in read_keys(call.data / "keys")}
    with journal_of(call) as reader:
        world = reader.resolve(call.world)
        rows = read_file(copies, world)
        return _judged(verify(reader, world, level, checkpoints=rows, keys=keys).shape())


def _verify_file(place: Path, copies: str | None) -> Done:
    """An export of a world, or a bundle of definitions, judged alone; no node is needed.

    What cannot even be read as one is damaged: the answer is no, like for a flipped byte inside.
    """
    try:
        return _export_judged(place, copies) if _is_export(place) else _bundle_judged(place)
    except TallyError as why:
        if why.code.partition(".")[0] not in _DAMAGE or why.code in _NO_DAMAGE:
            raise
        return Done(_damaged(place, why), NO)


def _export_judged(place: Path, copies: str | None) -> Done:
    from tallystick.journal.checkpoints import read_file  # noqa: PLC0415  # heavy
    from tallystick.journal.imports import opened  # noqa: PLC0415  # heavy
    from tallystick.journal.verify import verify  # noqa: PLC0415  # heavy

    with opened(place) as (journal, world):
        rows = read_file(Path(copies), world) if copies else ()
        return _judged(verify(journal, world, checkpoints=rows).shape())


def _bundle_judged(place: Path) -> Done:
    from tallystick.cli.sources import built_bundle  # noqa: PLC0415  # only here

    bundle = built_bundle(place)
    return Done(
        {
            "bundle": bundle.root,
            "ok": True,
            "nodes": len(bundle.nodes),
            "artifacts": len(bundle.artifacts),
        }
    )


def _damaged(place: Path, why: TallyError) -> dict[str, Any]:
    """The verdict on a file whose bytes are not those that were written."""
    return {
        "file": str(place),
        "ok": False,
        "first_bad": {"seq": None, "where": why.code, "what": why.message},
    }


def _is_export(place: Path) -> bool:
    from tallystick.journal.export import MAGIC  # noqa: PLC0415  # heavy

    if not place.is_file():
        return False
    with place.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


VERBS = (
    Verb(
        "replay",
        "run every tick again and compare the roots",
        _replay,
        (
            opt("from", "genesis, or a sequence with a snapshot"),
            opt("to", "stop at this sequence", type=int),
            flag("verify", "run the ticks again and compare bytes"),
            opt("workflow", "only ticks of this workflow"),
        ),
        shapes.REPLAY,
        _equal,
    ),
    Verb(
        "verify",
        "check hashes, seals, blobs, snapshots, checkpoints",
        _verify,
        (
            flag("quick", "the newest frames only"),
            flag("full", "everything"),
            flag("replay", "everything, and every tick again"),
            opt("bundle", "verify this export or bundle file instead"),
            opt("checkpoints", "compare with checkpoints kept elsewhere"),
        ),
        (
            shapes.VERIFY,
            {"bundle": str, "ok": bool, "nodes": int, "artifacts": int},
            {"file": str, "ok": bool, "first_bad": ANY},
        ),
    ),
)
