"""`tally replay`, `tally verify`: run it again and compare; check every hash and seal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from tallystick.cli import shapes, show
from tallystick.cli.request import Request
from tallystick.cli.verb import BROKEN, NO, OK, Done, Options, Verb, W, filled, flag, opt, picked
from tallystick.errors import Rejected


def _replay(call: Any, options: Options) -> Done:
    body = picked(("workflow",), options)
    if options["from"] not in (None, "genesis"):
        body["from_seq"] = _seq(options["from"])
    if options["to"] is not None:
        body["to_seq"] = options["to"]
    call.say("running every tick again ...")
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
    if options["bundle"]:
        return _verify_bundle(options["bundle"])
    body: dict[str, Any] = {"level": chosen[0] if chosen else "full"}
    if options["checkpoints"]:
        body["checkpoints"] = Path(options["checkpoints"]).read_text("utf-8")
    call.say(f"verifying, {body['level']} ...")
    found = call.ask(Request("POST", filled(W + "/verify", call, {}), body=body))
    return Done(found, OK if found["ok"] else NO)


def _verify_bundle(path: str) -> Done:
    """A bundle on disk, every byte of it hashed again; needs no node."""
    from tallystick.cli.sources import built_bundle  # noqa: PLC0415  # only here

    bundle = built_bundle(Path(path))
    return Done(
        {
            "bundle": bundle.root,
            "ok": True,
            "nodes": len(bundle.nodes),
            "artifacts": len(bundle.artifacts),
        }
    )


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
            opt("bundle", "verify this bundle file instead"),
            opt("checkpoints", "compare with checkpoints kept elsewhere"),
        ),
        (
            shapes.VERIFY,
            {"bundle": str, "ok": bool, "nodes": int, "artifacts": int},
        ),
    ),
)
