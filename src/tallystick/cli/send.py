"""`tally send`, `tally run`: give a world an event, alone or by the thousand."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from tallystick.api.wire import idem_key_of
from tallystick.cli import shapes
from tallystick.cli.cell import at_cell, key_word
from tallystick.cli.documents import json_of
from tallystick.cli.request import Request
from tallystick.cli.verb import NO, OK, SECONDS, Done, Options, Verb, W, arg, filled, opt, picked
from tallystick.errors import Rejected, SchemaMismatch, UnknownName
from tallystick.values import canon
from tallystick.values.schema.jsontext import parse_json

BATCH: Final = 500
BATCH_BYTES: Final = 256 * 1024
WAIT_MAX_S: Final = 30.0


def event_of(schema: str, value: Any, options: Options) -> dict[str, Any]:
    """The body of one event."""
    more: dict[str, Any] = {}
    if options["key"] is not None:
        more["key"] = key_of(options["key"])
    if options["tags"]:
        more["tags"] = list(options["tags"])
    return {"schema": schema, "value": value, **more}


def _lens(options: Options) -> dict[str, Any]:
    return picked(("lens",), options)


def key_of(word: str) -> Any:
    """A key as people write it: a number, or a text that needs no quotes."""
    try:
        found = json.loads(word)
    except ValueError:
        return word
    return found if isinstance(found, int | str) and not isinstance(found, bool) else word


def _send(call: Any, options: Options) -> Done:
    if options["wait"] is not None:
        call.need_effects()
    key = options["idempotency_key"]
    if key is not None:
        # Also an empty one: an unset variable of a shell must not send the event twice.
        idem_key_of(key.encode("utf-8", "surrogateescape"))
    if options["value"] == "-":
        found = _many(call, options, sys.stdin)
    else:
        body = event_of(options["schema"], json_of(options["value"]), options)
        headers = {"Idempotency-Key": key} if key else {}
        found = call.ask(
            Request("POST", filled(W + "/events", call, {}), _lens(options), body, headers)
        )
    if options["wait"] is not None:
        found = {**found, "quiet": quiet(call, options["wait"])}
        if not found["quiet"]:
            return Done(found, NO)
    return Done(found, NO if found.get("refused") else OK)


def quiet(call: Any, wait_s: float) -> bool:
    """Wait until nothing is ready and no effect runs; False when that took longer."""
    left = wait_s
    while True:
        part = min(left, WAIT_MAX_S)
        query = {"wait_ms": int(part * 1000)}
        found = call.ask(Request("GET", filled(W + "/stats", call, {}), query))
        left -= part
        if found.get("quiet") or left <= 0:
            return bool(found.get("quiet"))


def _many(call: Any, options: Options, lines: Iterable[str]) -> dict[str, Any]:
    """Every line one value; a batch is one commit, and each entry is taken or refused alone."""
    sent, refused, last = 0, 0, None
    first: Any = None
    for batch in _batches(_numbered(lines)):
        events = [_entry(number, text, options) for number, text in batch]
        body = {"events": events}
        found = call.ask(Request("POST", filled(W + "/events", call, {}), _lens(options), body))
        for (number, _text), result in zip(batch, found["results"], strict=True):
            if "event" in result:
                sent, last = sent + 1, result.get("seq")
            else:
                refused += 1
                first = first or {"line": number, **result["problem"]}
        call.say(f"{sent} sent, {refused} refused")
    return {"sent": sent, "refused": refused, "first_refused": first, "seq": last}


def _batches(rows: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Batches that a node takes: bounded in number and in size."""
    batch: list[tuple[int, str]] = []
    size = 0
    for row in rows:
        if batch and (len(batch) == BATCH or size + len(row[1]) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row[1])
    if batch:
        yield batch


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    try:
        for number, text in enumerate(lines, 1):
            if text.strip():
                yield number, text
    except UnicodeDecodeError as why:
        raise Rejected(
            "the input is no text in UTF-8",
            code="request.bad_json",
            hint="whole batches before it were sent; see `tally journal tail`",
        ) from why


def _entry(number: int, text: str, options: Options) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except SchemaMismatch as why:
        raise Rejected(
            f"line {number} is {why.message}",
            code="request.bad_json" if why.code == "value.bad_format" else why.code,
            where={"line": number},
            hint="lines before its batch were sent; correct this one and send the rest",
        ) from why
    made = event_of(options["schema"], value, options)
    if options["idempotency_key"]:
        # One word names the whole input, so a repeated run sends nothing twice.
        made["idempotency_key"] = f"{options['idempotency_key']}/{number}"
    return made


def _run(call: Any, options: Options) -> Done:
    """Send the event that begins a workflow, wait until all is quiet, and show the cell."""
    call.need_effects()
    value = json_of(options["value"])
    row = _subscription(call, options["workflow"])
    sent = call.ask(
        Request(
            "POST",
            filled(W + "/events", call, {}),
            _lens(options),
            event_of(row["event"], value, options),
        )
    )
    done = quiet(call, options["wait"])
    key = _key_in(value, row.get("key_field")) if options["key"] is None else options["key"]
    path, named = at_cell(call, {"workflow": options["workflow"], "key": key})
    cell = call.ask(Request("GET", path, named))
    code = NO if cell["status"] == "failed" or not done else OK
    return Done({**sent, "quiet": done, "cell": cell}, code)


def _subscription(call: Any, workflow: str) -> dict[str, Any]:
    """The first row of the manifest that gives an event to the workflow."""
    world = call.ask(Request("GET", filled(W, call, {})))
    path = filled(W + "/blobs/{hash}", call, {"hash": world["manifest"]})
    manifest = canon.decode(call.reply(Request("GET", path)).body)
    for row in manifest.get("routing", {}).get("subscriptions", ()):
        if row["workflow"] == workflow:
            found: dict[str, Any] = row
            return found
    raise UnknownName(
        f"no event begins {workflow} in this world",
        code="workflow.unknown",
        where={"workflow": workflow},
        hint="see the routing of `tally bundle show`, or send the event yourself",
    )


def _key_in(value: Any, path: str | None) -> str:
    if path is None:
        return "-"
    for part in path.strip("$.").split("."):
        value = value[part]
    return key_word(value)


LENS = opt("lens", "how the value is spelled", type=click.Choice(["sugar", "tagged"]))
TAGS = opt("tags", "a tag of the event", multiple=True)

VERBS = (
    Verb(
        "send",
        "send an event: JSON, @file, or - for one value a line",
        _send,
        (
            arg("schema"),
            arg("value"),
            opt("key", "the cell it is for"),
            opt("idempotency-key", "send it once, however often you ask"),
            LENS,
            TAGS,
            opt("wait", "wait up to so many seconds until all is quiet", type=SECONDS),
        ),
        (shapes.SENT, shapes.SENT_MANY),
    ),
    Verb(
        "run",
        "begin a workflow, wait until it rests, show its cell",
        _run,
        (
            arg("workflow"),
            arg("value"),
            opt("key", "the key of the cell, when the event does not hold it"),
            LENS,
            TAGS,
            opt("wait", "give up after so many seconds", type=SECONDS, default=30.0),
        ),
        {**shapes.SENT, "quiet": bool, "cell": shapes.CELL},
    ),
)
