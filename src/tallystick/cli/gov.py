"""`tally gov`: propose a change, try it, decide about it, apply it; revoke a grant."""

# tidy: one noun, all of its verbs.
from __future__ import annotations

import base64
import re
import time
from pathlib import Path
from typing import Any, Final

import click

from tallystick.cli import gov_show, shapes, show
from tallystick.cli.documents import document_at, lines_at
from tallystick.cli.problem import Refused
from tallystick.cli.progress import PROGRESS, with_progress
from tallystick.cli.request import Request
from tallystick.cli.shape import ANY, HASH
from tallystick.cli.verb import (
    AFTER,
    AT,
    AUTHORITY,
    LIMIT,
    NO,
    OK,
    REASON,
    Done,
    Options,
    Run,
    Verb,
    W,
    arg,
    filled,
    flag,
    opt,
    picked,
    reads,
)
from tallystick.errors import Rejected

ALL: Final = W + "/proposals"
ONE: Final = ALL + "/{proposal}"
STATES: Final = ("submitted", "shadowed", "approved", "applied", "rejected", "stale", "failed")
_LONG_S: Final = 600.0  # running histories again may take minutes
_LENGTH: Final = re.compile(r"(\d{1,6})(ms|s|m|h)?")
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, None: 1000}


def _propose(call: Any, options: Options) -> Done:
    ways = [options["patch"], options["bundle"], options["rebase"]]
    if sum(way is not None for way in ways) != 1:
        raise Rejected(
            "say one of PATCH, --bundle and --rebase",
            code="request.usage",
            hint="for example `tally gov propose --bundle app.py`",
        )
    body: dict[str, Any] = picked(("rebase", "description"), options)
    if options["patch"] is not None:
        body["patch"] = document_at(options["patch"])
    if options["bundle"] is not None:
        from tallystick.cli.sources import bundle_at  # noqa: PLC0415  # only builders need it

        made = bundle_at(options["bundle"], authority=options["authority"])
        body["bundle"] = base64.b64encode(made.to_zip()).decode("ascii")
    return Done(call.ask(Request("POST", filled(ALL, call, {}), body=body)))


def _vote(decision: str) -> Run:
    def run(call: Any, options: Options) -> Done:
        path = filled(f"{ONE}/{decision}", call, options)
        body: dict[str, Any] = picked(("comment", "report_hash"), options)
        if options["sign"] is not None:
            body["seal"] = _seal(call, options, decision)
        return Done(call.ask(Request("POST", path, body=body)))

    return run


def _seal(call: Any, options: Options, decision: str) -> dict[str, Any]:
    """The seal of a key of this folder over the decision, as the principal whose key it is."""
    from tallystick.node.keys import find_key  # noqa: PLC0415  # only who signs needs keys
    from tallystick.values.seal import approval_statement  # noqa: PLC0415

    if options["as"] is None:
        raise Rejected(
            "whose key it is has to be said",
            code="request.usage",
            hint=f"add --as PRINCIPAL; the key is {options['sign']}",
        )
    shown = call.ask(Request("GET", filled(ONE, call, options)))
    world = call.ask(Request("GET", filled(W, call, {})))["world"]
    at_ns = time.time_ns()
    statement = approval_statement(
        world=world,
        proposal=shown["proposal"],
        bundle=shown["bundle"],
        report_hash=shown["report_hash"],
        decision=decision,
        principal=options["as"],
        at_ns=at_ns,
    )
    made = find_key(call.data / "keys", options["sign"]).pair.sign(statement)
    return {**made, "sig": base64.b64encode(made["sig"]).decode("ascii"), "at_ns": at_ns}


def _long(call: Any, options: Options, request: Request, wait_s: float = 0.0) -> Any:
    """Ask for something that takes its time."""
    call.be_patient(wait_s + _LONG_S)
    return with_progress(call, lambda: call.ask(request), wanted=options["progress"])


def _shadow(call: Any, options: Options) -> Done:
    body: dict[str, Any] = picked(("tail",), options)
    if options["seed"] is not None:
        body["seed"] = lines_at(options["seed"])
    if options["receipts"] is not None:
        body["receipts"] = document_at(options["receipts"])
    if options["synthetic"] == "none":
        body["synthetic"] = False
    found = _long(call, options, Request("POST", filled(f"{ONE}/shadow", call, options), body=body))
    diverges = bool(found["report"]["divergences"])
    return Done(_led_on(call, options, found), NO if diverges and options["strict"] else OK)


def _prove(call: Any, options: Options) -> Done:
    body = {} if options["tail"] is None else {"tail": _tail(options["tail"])}
    found = _long(call, options, Request("POST", filled(f"{ONE}/prove", call, options), body=body))
    if options["accept"] is not None:
        _accept(call, options, found["verdicts"])
    return Done(_led_on(call, options, found))


def _led_on(call: Any, options: Options, found: dict[str, Any]) -> dict[str, Any]:
    """A report with the verb that its proposal wants next, by the rules in force."""
    return {
        **found,
        "next": gov_show.next_verb(call.ask(Request("GET", filled(ONE, call, options)))),
    }


def _accept(call: Any, options: Options, verdicts: dict[str, int]) -> None:
    """A passed proof explains the change of its sources: their fingerprint is written anew."""
    from tallystick.cli.lint import accept  # noqa: PLC0415  # only builders need these
    from tallystick.cli.sources import bundle_at  # noqa: PLC0415

    place = Path(options["accept"])
    proposed = call.ask(Request("GET", filled(ONE, call, options)))["bundle"]
    if verdicts["diverges"]:
        raise Rejected(
            f"{verdicts['diverges']} cells diverge, so nothing explains the change",
            code="gov.not_proved",
            hint="read the verdicts, or accept it yourself: `tally lint --accept`",
        )
    if bundle_at(str(place), authority=options["authority"]).root != proposed:
        raise Rejected(
            f"{place} is not what was proposed and proved",
            code="gov.other_sources",
            where={"path": str(place), "bundle": proposed},
            hint="propose these sources with --bundle, and prove that",
        )
    accept(place)


def _tail(text: str) -> int:
    if text == "all":
        return 0
    if not text.isdigit() or text == "0":
        raise Rejected(
            f"{text!r} is no number of ticks", code="request.usage", hint="say 256 or all"
        )
    return int(text)


def _apply(call: Any, options: Options) -> Done:
    wait_ms = 0 if options["wait"] is None else _length(options["wait"])
    body: dict[str, Any] = {"wait_ms": wait_ms} if wait_ms else {}
    chosen = dict(_choice(word) for word in options["on"])
    if options["prove"] or chosen:
        body |= {"prove": True, "on": chosen}
    try:
        request = Request("POST", filled(f"{ONE}/apply", call, options), body=body)
        return Done(_long(call, options, request, wait_ms / 1000))
    except Refused as why:
        gov_show.blocked(call.console, why.where)
        raise


def _choice(word: str) -> tuple[str, str]:
    verdict, found, action = word.rpartition("=")
    if not found:
        raise Rejected(
            f"{word!r} is not VERDICT=ACTION",
            code="request.usage",
            hint="for example --on diverges=pin",
        )
    return verdict, action


def _length(text: str) -> int:
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise Rejected(
            f"{text!r} is no length of time", code="request.usage", hint="say 30s or 10m"
        )
    return int(found.group(1)) * _UNITS[found.group(2)]


def _revoke(call: Any, options: Options) -> Done:
    body = picked(("reason", "cancel_open"), options)
    return Done(
        call.ask(Request("POST", filled(W + "/grants/{grant}/revoke", call, options), body=body))
    )


PROPOSAL: Final = {
    "proposal": str,
    "state": str,
    "author": str,
    "base": HASH,
    "bundle": HASH,
    "report_hash": (HASH, None),
    "complete": bool,
    "proof_hash": (HASH, None),
    "votes": int,
    "needed": int,
}
WHICH = arg("proposal")
VOTE = (
    WHICH,
    opt("comment", "why; it is kept in the journal"),
    opt("report-hash", "the report that was read"),
    opt("sign", "seal the decision with this key of the folder"),
    opt("as", "the principal whose key it is"),
)
REPORTED = {
    "proposal": str,
    "seq": int,
    "report_hash": HASH,
    "report": ANY,
    "next": (str, None),
}


VOTED = {"proposal": str, "seq": int, "decision": str, "approvals": int, "needed": int}

VERBS = (
    Verb(
        "gov propose",
        "propose a patch, a bundle, or a stale proposal anew",
        _propose,
        (
            arg("patch", required=False),
            opt("bundle", "bundle, folder or .py file"),
            opt("rebase", "proposal to make anew for the active manifest"),
            opt("description", "what it is for"),
            AUTHORITY,
        ),
        {"proposal": str, "bundle": HASH, "manifest": HASH, "summary": ANY, "seq": int},
        gov_show.proposed,
    ),
    Verb(
        "gov ls",
        "changes that were proposed",
        reads(ALL, "state", "limit", "after", "at"),
        (opt("state", "only in this state", type=click.Choice(STATES)), LIMIT, AFTER, AT),
        shapes.items(PROPOSAL),
        show.columns("proposal", "state", "author", "votes", "needed", "bundle"),
    ),
    Verb(
        "gov show",
        "one proposal: what it changes, and what is missing",
        reads(ONE, "at"),
        (WHICH, AT),
        {
            **PROPOSAL,
            "manifest": HASH,
            "patch": ANY,
            "approvals": [ANY],
            "rules": ANY,
            "code": (str, None),
            "as_of": int,
        },
        gov_show.proposal,
    ),
    Verb(
        "gov shadow",
        "try a proposal on the live state and the recorded tail; nothing leaves",
        _shadow,
        (
            WHICH,
            opt("tail", "how many inputs back", type=int),
            opt("seed", "events to send behind them: a file of JSON lines"),
            opt("receipts", "answers to effects: a YAML file"),
            opt(
                "synthetic",
                "none: what nothing answers stays pending",
                type=click.Choice(["smallest", "none"]),
            ),
            flag("strict", "a divergence is a no"),
            PROGRESS,
        ),
        {**REPORTED, "complete": bool},
        gov_show.reported,
    ),
    Verb(
        "gov prove",
        "a verdict on every open cell by its own history",
        _prove,
        (
            WHICH,
            opt("tail", "how many ticks back: a number, or all"),
            opt("accept", "sources whose fingerprint a passed proof writes anew"),
            AUTHORITY,
            PROGRESS,
        ),
        {**REPORTED, "verdicts": ANY},
        gov_show.reported,
    ),
    Verb("gov approve", "say yes to a proposal", _vote("approve"), VOTE, VOTED, gov_show.voted),
    Verb(
        "gov reject",
        "say no to a proposal; one no is final",
        _vote("reject"),
        VOTE,
        VOTED,
        gov_show.voted,
    ),
    Verb(
        "gov apply",
        "switch to the bundle of a proposal",
        _apply,
        (
            WHICH,
            opt("wait", "refuse new events for so long until nothing is open: 30s, 10m"),
            flag("prove", "let open cells go on as their own history allows"),
            opt("on", "[WORKFLOW:]VERDICT=ACTION, as diverges=pin", multiple=True),
            PROGRESS,
        ),
        {"proposal": str, "status": str, "seq": int, "manifest": HASH, "checkpoint": (int, None)},
    ),
    Verb(
        "gov running",
        "what-ifs, shadows and proofs that are not over, and how far they came",
        reads(W + "/reruns"),
        (),
        shapes.items({"kind": str, "begun_ns": int, "done": int, "of": (int, None)}),
        show.columns("kind", "done", "of", "begun_ns"),
    ),
    Verb(
        "gov pins",
        "cells that still run under older definitions",
        reads(W + "/pins", "at"),
        (AT,),
        {"items": [ANY], "count": int, "next": None, "as_of": int},
        show.columns("workflow", "key", "manifest", "last_seq"),
    ),
    Verb(
        "gov revoke",
        "revoke a grant at once, and all that derives from it",
        _revoke,
        (arg("grant"), REASON, flag("cancel-open", "also cancel what is out under it")),
        shapes.SEQ,
    ),
)
