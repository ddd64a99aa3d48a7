"""`tally workspace`, `frame`, `stamp`: watched directories and what is known of their files."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tallystick.cli import show
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY
from tallystick.cli.sources import bundle_at
from tallystick.cli.verb import (
    AFTER,
    AT,
    SECONDS,
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
)
from tallystick.errors import Rejected, TallyError
from tallystick.reactions.bundle import reacting, reaction_bundle
from tallystick.reactions.tree import shown

ALL: Final = W + "/workspaces"
IN: Final = opt("in", "the workspace, by the name of its folder or its id", metavar="WORKSPACE")
WAIT: Final = opt(
    "wait", "for how many seconds to wait until all that follows is done", type=SECONDS
)


def place(call: Any, options: Options, name: str = "path") -> dict[str, Any]:
    """A path of the command line as the node names it: workspace and path below it.

    A path that exists here is looked for in the watched directories; any other is taken as it
    stands.
    """
    given = str(options[name])
    chosen = options.get("in")
    if chosen is not None:
        return {"path": given, "workspace": chosen}
    here = Path(given).absolute()
    rows = call.ask(Request("GET", filled(ALL, call, {})))["items"]
    for row in rows:
        root = row["path"]
        if root is not None and here.is_relative_to(root):
            below = here.relative_to(root)
            text = "" if str(below) == "." else shown(str(below).encode("utf-8", "surrogateescape"))
            return {"path": text, "workspace": row["workspace_id"]}
    return {"path": given}


def _add(call: Any, options: Options) -> Done:
    """Watch a directory; a folder without the world gets one that reacts."""
    call.need_effects()
    _world(call, options.get("bundle"))
    folder = Path(options["dir"]).absolute()
    body = {"path": str(folder), "shared": bool(options.get("shared"))}
    told = call.ask(Request("POST", filled(ALL, call, options), body=body))
    path = filled(ALL + "/{workspace}/scan", call, {"workspace": told["workspace_id"]})
    seen = call.ask(Request("POST", path, body={}))
    return Done({**told, "n": seen["n"], "files": seen["files"], "tree": seen["tree"]})


def _world(call: Any, app: str | None) -> None:
    """Make a world that reacts if there is none, with the workflows of an app when one is named."""
    try:
        call.ask(Request("GET", filled(W, call, {})))
    except TallyError as why:
        if why.code != "world.unknown":
            raise
        made = reaction_bundle() if app is None else reacting(bundle_at(app))
        body = {"name": call.world, "bundle": base64.b64encode(made.to_zip()).decode()}
        call.ask(Request("POST", "/v1/worlds", body=body))
        return
    if app is not None:
        raise Rejected(
            f"there is a world {call.world} already, and it keeps the bundle it has",
            code="world.exists",
            where={"world": call.world},
            hint="build with `tally bundle build --reacts`, then `tally gov propose --bundle`",
        )


def _one(verb: str, *, method: str = "POST", active: bool = False) -> Any:
    """A command about one workspace, named by its directory, its name or its id."""

    def run(call: Any, options: Options) -> Done:
        if active:
            call.need_effects()
        body: dict[str, Any] | None = None
        if verb == "trust":
            body = {"reactions": list(options.get("reaction") or ())}
            if options.get("follow"):
                body["follow"] = True
        elif verb == "scan":
            body = {"wait_ms": int((options.get("wait") or 0) * 1000)}
        path = filled(ALL + "/{workspace}", call, {"workspace": _named(call, options["dir"])})
        where = f"{path}/{verb}" if verb else path
        return Done(call.ask(Request(method, where, body=body)))

    return run


def _named(call: Any, given: str) -> str:
    """A workspace by its directory, its name or its id."""
    rows = call.ask(Request("GET", filled(ALL, call, {})))["items"]
    here = str(Path(given).absolute())
    for row in rows:
        if row["path"] is not None and here in (row["path"], str(Path(row["path"]))):
            return str(row["workspace_id"])
    return given


def _ls(call: Call, options: Options) -> Done:
    return Done(call.ask(Request("GET", filled(ALL, call, options))))


# ---- frames and stamps ----------------------------------------------------------------------


def _put(call: Any, options: Options) -> Done:
    call.need_effects()
    file = options["file"]
    data: bytes = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    body: dict[str, Any] = {**place(call, options), "type": options["type"]}
    body["content"] = base64.b64encode(data).decode()
    return Done(call.ask(Request("POST", filled(W + "/frames", call, {}), body=body)))


def _frames(call: Call, query: dict[str, Any]) -> Any:
    return call.ask(Request("GET", filled(W + "/frames", call, {}), query))


def _get(call: Call, options: Options) -> Done:
    query = {**place(call, options), "type": options["type"], "content": "true"}
    rows = _frames(call, query)["items"]
    if not rows:
        raise Rejected(
            f"no frame {options['type']} at {options['path']}",
            code="frame.unknown",
            hint="frame ls",
        )
    return Done(rows[0])


def _list_frames(call: Call, options: Options) -> Done:
    query = {} if options.get("path") is None else place(call, options)
    if options.get("in"):
        query["workspace"] = options["in"]
    if options.get("stale"):
        query["stale"] = "true"
    query |= picked(("at",), options)
    return Done(_frames(call, query))


def _show_frame(console: Console, value: Any) -> None:
    console.print(value["content"], markup=False, highlight=False, soft_wrap=True, end="")


def _stamps(call: Call, options: Options) -> Done:
    query = picked(("limit", "after", "at"), options)
    if options.get("path") is not None:
        query["path"] = place(call, options)["path"]
    return Done(call.ask(Request("GET", filled(W + "/stamps", call, {}), query)))


def _move(verb: str) -> Any:
    def run(call: Any, options: Options) -> Done:
        call.need_effects()
        path = filled(f"{W}/stamps/{verb}", call, {})
        return Done(call.ask(Request("POST", path, body=place(call, options))))

    return run


_DIR: Final = arg("dir")
VERBS = (
    Verb(
        "workspace add",
        "watch a directory",
        _add,
        (
            _DIR,
            flag("shared", "another world may watch it too, if it says so as well"),
            opt("bundle", "make the world from this app, and let it react"),
        ),
        ANY,
    ),
    Verb(
        "workspace ls",
        "the watched directories",
        _ls,
        (),
        ANY,
        show.columns("name", "workspace_id", "status", "n", "reactions", "active", "path"),
    ),
    Verb(
        "workspace trust",
        "let the reactions of a directory run, as they are now",
        _one("trust", active=True),
        (
            _DIR,
            arg("reaction", required=False, many=True),
            flag("follow", "and as they will be edited"),
        ),
        ANY,
    ),
    Verb(
        "workspace scan",
        "look at everything now; it is journaled when this ends",
        _one("scan", active=True),
        (_DIR, WAIT),
        ANY,
    ),
    Verb(
        "workspace confirm",
        "say that what vanished was meant to",
        _one("confirm", active=True),
        (_DIR,),
        ANY,
    ),
    Verb(
        "workspace rm",
        "watch a directory no more; its history stays",
        _one("", method="DELETE"),
        (_DIR,),
        ANY,
    ),
    Verb(
        "frame put",
        "attach context to a place; the same again changes nothing",
        _put,
        (
            arg("path"),
            opt("type", "the type of the frame", required=True),
            opt("file", "the content; - is the input", required=True),
            IN,
        ),
        ANY,
    ),
    Verb(
        "frame get",
        "the newest frame of a type at a place",
        _get,
        (arg("path"), opt("type", "the type of the frame", required=True), IN),
        ANY,
        _show_frame,
    ),
    Verb(
        "frame ls",
        "the newest frames, and whether they are fresh",
        _list_frames,
        (arg("path", required=False), flag("stale", "only those whose place has changed"), AT, IN),
        ANY,
        show.columns("path", "type", "fresh", "content_id", "past"),
    ),
    Verb(
        "stamp ls",
        "who wrote which bytes where",
        _stamps,
        (
            arg("path", required=False),
            opt("limit", "at most this many", type=int),
            AFTER,
            AT,
            IN,
        ),
        ANY,
        show.columns("path", "state", "reaction", "post_id", "run_id"),
    ),
    Verb(
        "stamp adopt",
        "give a generated file to yourself for good",
        _move("adopt"),
        (arg("path"), IN),
        ANY,
    ),
    Verb(
        "stamp forget",
        "drop what is known of who wrote a file",
        _move("forget"),
        (arg("path"), IN),
        ANY,
    ),
)
