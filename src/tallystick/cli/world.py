"""`tally world`: list, create, show, remove, compare, fork, export."""

from __future__ import annotations

import base64
from typing import Any

import click

from tallystick.cli import shapes, show
from tallystick.cli.progress import PROGRESS, with_progress
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY, HASH
from tallystick.cli.verb import (
    AFTER,
    AT,
    AUTHORITY,
    Call,
    Done,
    Options,
    Verb,
    W,
    arg,
    filled,
    flag,
    opt,
    picked,
    posts,
    reads,
)
from tallystick.errors import Rejected

NAMED = "/v1/worlds/{name}"
_WHAT_IF_S = 600  # it is run, and then written


def _create(call: Call, options: Options) -> Done:
    from tallystick.cli.sources import bundle_at  # noqa: PLC0415  # only builders need the model

    body: dict[str, Any] = {"name": options["name"]}
    if options["bundle"]:
        made = bundle_at(options["bundle"], authority=options["authority"])
        body["bundle"] = base64.b64encode(made.to_zip()).decode("ascii")
    return Done(call.ask(Request("POST", "/v1/worlds", body=body)))


def _show(call: Call, options: Options) -> Done:
    return reads(NAMED + "/flows" if options["flows"] else NAMED, "at")(call, options)


def _remove(call: Call, options: Options) -> Done:
    if not options["yes"]:
        raise Rejected(
            f"{options['name']} and its journal would be gone for good",
            code="world.not_confirmed",
            hint="say --yes if you mean it; `tally world export` keeps a copy",
        )
    return Done(call.ask(Request("DELETE", filled(NAMED, call, options))))


def _fork(call: Any, options: Options) -> Done:
    body: dict[str, Any] = {"name": options["as"], "pending": options["pending"]}
    if options["at"] is not None:
        body["at"] = options["at"]
    if options["edit"]:
        from tallystick.cli.documents import document_at  # noqa: PLC0415  # only a what-if needs it

        body["edits"] = document_at(options["edit"])
    chosen = dict(_pair(word) for word in options["pending_for"])
    if chosen:
        body["pending_for"] = chosen
    request = Request("POST", filled(W + "/forks", call, {}), body=body)
    if not options["edit"]:
        return Done(call.ask(request))
    call.be_patient(_WHAT_IF_S)
    return Done(with_progress(call, lambda: call.ask(request), wanted=options["progress"]))


def _pair(word: str) -> tuple[str, str]:
    effect, found, what = word.partition("=")
    if not found:
        raise click.BadParameter(f"{word!r} is not EFFECT=WHAT")
    return effect, what


def _diff(call: Call, options: Options) -> Done:
    query = {"with": options["b"], **picked(("at", "with_at", "after"), options)}
    return Done(call.ask(Request("GET", filled("/v1/worlds/{a}/diff", call, options), query)))


def _alias(call: Call, options: Options) -> Done:
    path = filled("/v1/aliases/{alias}", call, options)
    body: dict[str, Any] = {"world": options["target"]}
    first = call.ask(Request("PUT", path, body={**body, "preview": True}))
    if first["settled_since"]:
        call.console.print("settled by the old world since the fork, and not rolled back:")
        show.columns("seq", "effect", "status", "intent")(
            call.console, {"items": first["settled_since"]}
        )
    if first["before"] is not None:
        body["expect"] = first["before"]
    return Done(call.ask(Request("PUT", path, body=body)))


PENDING = click.Choice(["suspend", "cancel", "reissue"])

VERBS = (
    Verb(
        "world ls",
        "the worlds of the node",
        reads("/v1/worlds"),
        (),
        shapes.items(shapes.WORLD_ROW),
        show.columns("name", "world", "seq", "state"),
    ),
    Verb(
        "world create",
        "make a world, from a bundle, a folder or a .py file",
        _create,
        (
            arg("name"),
            opt("bundle", "bundle, folder or .py file"),
            AUTHORITY,
        ),
        shapes.WORLD,
    ),
    Verb(
        "world show",
        "what the node knows of a world",
        _show,
        (arg("name"), flag("flows", "how full its flows and budgets are"), AT),
        (shapes.WORLD, shapes.FLOWS),
    ),
    Verb(
        "world rm",
        "remove a world and its journal",
        _remove,
        (arg("name"), flag("yes", "yes, remove it")),
        {"world": str, "removed": bool},
    ),
    Verb("world root", "root and state root", reads(W + "/root", "at"), (AT,), shapes.ROOT),
    Verb(
        "world snapshot",
        "pin the state as it is now",
        posts(W + "/snapshots", "pin"),
        (flag("pin", "keep it until it is unpinned"),),
        {"seq": int, "root": HASH, "document": HASH, "pinned": bool, "at_ns": int},
    ),
    Verb(
        "world fork",
        "a new world that begins where this one stood",
        _fork,
        (
            AT,
            opt("as", "name of the new world", required=True),
            opt("pending", "what becomes of open effects", type=PENDING, default="suspend"),
            opt("pending-for", "EFFECT=WHAT, for one effect", multiple=True),
            opt("edit", "what-if: a file of edits, before the first of which it begins"),
            PROGRESS,
        ),
        shapes.WORLD_ROW,
    ),
    Verb(
        "world diff",
        "what differs between two worlds",
        _diff,
        (
            arg("a"),
            arg("b"),
            AT,
            opt("with-at", "the other world as of this sequence", type=int),
            AFTER,
        ),
        shapes.DIFF,
        show.columns("workflow", "key", "change", "status"),
    ),
    Verb(
        "world alias",
        "let a name lead to a world",
        _alias,
        (arg("alias"), arg("target")),
        {"alias": str, "world": str, "before": (str, None), "settled_since": [ANY], "moved": bool},
    ),
)
