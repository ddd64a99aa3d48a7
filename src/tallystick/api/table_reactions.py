"""The routes of workspaces, reactions and provenance (08 section 13)."""

from __future__ import annotations

from typing import Final

from tallystick.api import found_again, models, provenance, reactions, workspaces
from tallystick.api.found_again import Again
from tallystick.api.routes import Handler, Route

_W: Final = "/v1/worlds/{w}"
_WORKSPACE: Final = _W + "/workspaces/{workspace}"
_REACTION: Final = _W + "/reactions/{reaction}"
_RUN: Final = _W + "/runs/{run}"


def _posts(
    where: tuple[str, str], handler: Handler, says: str, body: object, again: Again | None = None
) -> Route:
    path, scope = where
    return Route(
        "POST",
        path,
        scope,
        handler,
        says,
        (202, 404, 409, 422),
        body=body,
        content="document",
        once="kept",
        found_again=again,
    )


REACTIONS: Final = (
    Route("GET", f"{_W}/workspaces", "read", workspaces.list_workspaces, "watched directories"),
    Route(
        "POST",
        f"{_W}/workspaces",
        "admin",
        workspaces.add,
        "watch a directory of this host",
        (201, 409, 422),
        body=models.NewWorkspace,
        content="document",
    ),
    Route("DELETE", _WORKSPACE, "admin", workspaces.remove, "watch a directory no more"),
    _posts((f"{_WORKSPACE}/trust", "admin"), workspaces.trust, "pin definitions", models.TrustBody),
    Route(
        "POST",
        f"{_WORKSPACE}/scan",
        "operate",
        workspaces.scan,
        "look at everything now",
        (200, 409),
        body=models.ScanBody,
        content="document",
    ),
    Route(
        "POST",
        f"{_WORKSPACE}/confirm",
        "operate",
        workspaces.confirm,
        "what vanished was meant to",
        (202, 409),
    ),
    Route(
        "GET",
        f"{_W}/frames",
        "read",
        workspaces.list_frames,
        "context frames: the heads by place and type",
        query=("workspace", "path", "type", "stale", "content", "at"),
    ),
    _posts(
        (f"{_W}/frames", "send"),
        workspaces.put_frame,
        "put a frame",
        models.FrameBody,
        found_again.frame_put,
    ),
    Route(
        "GET",
        f"{_W}/stamps",
        "read",
        workspaces.list_stamps,
        "who wrote which bytes where",
        query=("path", "limit", "after", "at"),
    ),
    *(
        _posts(
            (f"{_W}/stamps/{verb}", "operate"),
            workspaces.move_stamp(verb),
            f"{verb} a generated file",
            models.StampBody,
            found_again.stamp_moved,
        )
        for verb in ("adopt", "forget")
    ),
    Route(
        "GET",
        f"{_W}/reactions",
        "read",
        reactions.list_reactions,
        "what is loaded and trusted",
        query=("at",),
    ),
    Route("GET", _REACTION, "read", reactions.show_reaction, "one with its lanes", query=("at",)),
    _posts((f"{_REACTION}/run", "send"), reactions.run, "a command trigger", models.RunBody),
    Route(
        "POST",
        f"{_REACTION}/simulate",
        "read",
        reactions.simulate_reaction,
        "every stage of a change; nothing is written",
        body=models.SimulateBody,
        content="document",
    ),
    *(
        _posts(
            (f"{_REACTION}/{verb}", "operate"),
            reactions.switch(verb),
            f"{verb} a reaction",
            models.Operation,
            found_again.switched,
        )
        for verb in ("enable", "disable", "reset")
    ),
    Route(
        "GET",
        f"{_W}/runs",
        "read",
        reactions.list_runs,
        "attempts, newest first",
        query=("reaction", "limit", "after", "at"),
    ),
    Route("GET", _RUN, "read", reactions.show_run, "one attempt", query=("at",)),
    *(
        _posts(
            (f"{_RUN}/{verb}", "operate"),
            reactions.operate_run(verb),
            f"{verb} a run",
            models.Operation,
            found_again.run_operated,
        )
        for verb in ("retry", "abort")
    ),
    Route(
        "GET",
        f"{_W}/decisions",
        "read",
        reactions.list_decisions,
        "what policy said, newest first",
        query=("reaction", "limit", "after"),
    ),
    Route(
        "GET",
        f"{_W}/decisions/{{decision}}",
        "read",
        reactions.replayed_decision,
        "one decision with its facts, decided again",
    ),
    Route(
        "GET",
        f"{_W}/triggers",
        "read",
        reactions.list_triggers,
        "how triggers ended, newest first",
        query=("reaction", "limit", "after"),
    ),
    Route(
        "POST",
        f"{_W}/triggers/replay",
        "read",
        reactions.replayed_all,
        "every trigger, decision, run and stamp, computed again from records",
    ),
    Route(
        "GET",
        f"{_W}/triggers/of",
        "read",
        reactions.explained_path,
        "the last words about a path, also why nothing came of it",
        query=("workspace", "path"),
    ),
    Route(
        "GET",
        f"{_W}/triggers/{{trigger}}/explain",
        "read",
        reactions.explained_trigger,
        "why it fired, what each stage said, what became of it",
    ),
    Route(
        "GET",
        f"{_W}/triggers/{{trigger}}",
        "read",
        reactions.replayed_trigger,
        "one trigger, derived again from recorded hashes",
    ),
    Route(
        "GET",
        f"{_W}/provenance",
        "read",
        provenance.list_provenance,
        "where outputs come from",
        query=("limit", "after"),
    ),
    Route(
        "GET",
        f"{_W}/provenance/why",
        "read",
        provenance.show_why,
        "why a file is as it is",
        query=("workspace", "path"),
    ),
    Route(
        "POST",
        f"{_W}/provenance/verify",
        "read",
        provenance.verify_provenance,
        "every hash again",
        body=models.ProvenanceBody,
        content="document",
    ),
    Route(
        "GET",
        f"{_W}/provenance/export",
        "read",
        provenance.export,
        "in-toto, OpenLineage, PROV-JSON or DOT",
        (200, 409, 422),
        query=("format", "run", "path", "since", "sign", "workspace"),
    ),
)
