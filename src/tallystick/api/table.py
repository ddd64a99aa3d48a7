"""The table of all routes: what a node answers, to whom, and with which codes (04 section 10).

What is not listed here is not served.
"""

# tidy: one table, read as a whole.
from __future__ import annotations

from typing import Final

from tallystick.api import (
    causes,
    cells,
    effects,
    events,
    feed,
    found_again,
    history,
    models,
    ops,
    tokens,
    work,
    worlds,
)
from tallystick.api.openapi import openapi
from tallystick.api.routes import OPEN, SESSION, Route, Table
from tallystick.api.table_governance import GOVERNANCE
from tallystick.api.table_playbooks import EXECUTIONS
from tallystick.api.table_reactions import REACTIONS

METRICS: Final = "/metrics"
_W: Final = "/v1/worlds/{w}"
_CELL: Final = _W + "/cells/{workflow}/{key}"
_EFFECT: Final = _W + "/effects/{intent}"
_PAGE: Final = ("limit", "after", "at")
_CELL_VERBS: Final = ("suspend", "resume", "skip", "cancel")
_EFFECT_VERBS: Final = ("cancel", "release")
_DECISIONS: Final = ("approve", "reject")

NODE: Final = (
    Route("GET", "/v1/health", OPEN, ops.health, "how the node is", (200, 503)),
    Route("GET", METRICS, "read", ops.metrics, "counters and gauges", whole_node=True),
    Route("GET", "/v1/openapi.json", "read", openapi, "this table as OpenAPI 3.1"),
    Route("GET", "/v1/worlds", "read", worlds.list_worlds, "the worlds of the token"),
    Route(
        "POST",
        "/v1/worlds",
        "admin",
        worlds.create,
        "a new world",
        (201, 409, 422),
        body=models.NewWorld,
        content="large",
        once="kept",
        whole_node=True,
    ),
    Route(
        "PUT",
        "/v1/aliases/{alias}",
        "fork",
        worlds.put_alias,
        "let a name mean another world",
        (200, 409),
        body=models.AliasBody,
        content="document",
    ),
    Route("GET", "/v1/tokens", "admin", tokens.list_tokens, "who may call", whole_node=True),
    Route(
        "POST",
        "/v1/tokens",
        "admin",
        tokens.make_token,
        "a new token, shown once",
        (201, 422),
        body=models.NewToken,
        content="document",
        once="never",
        whole_node=True,
    ),
    Route(
        "POST",
        "/v1/session",
        OPEN,
        tokens.begin_session,
        "a session for a code of a link",
        (201, 422),
        body=models.SessionCode,
        content="document",
        once="never",
    ),
    Route("DELETE", "/v1/session", SESSION, tokens.end_session, "end the session of this browser"),
    Route(
        "POST",
        "/v1/backup",
        "admin",
        ops.make_backup,
        "a whole copy at one moment",
        (200, 409, 422),
        body=models.BackupOptions,
        content="document",
        whole_node=True,
    ),
    Route(
        "POST",
        "/v1/gc",
        "admin",
        ops.collect,
        "remove what nothing names any more",
        (200, 409, 422),
        body=models.CollectOptions,
        content="document",
        whole_node=True,
    ),
    Route(
        "DELETE",
        "/v1/tokens/{id}",
        "admin",
        tokens.revoke_token,
        "revoke a token",
        whole_node=True,
    ),
)

WORLD: Final = (
    Route("GET", _W, "read", worlds.show, "where a world stands", query=("at",)),
    Route("DELETE", _W, "admin", worlds.remove, "remove a world", (200, 409)),
    Route(
        "POST",
        f"{_W}/events",
        "send",
        events.send,
        "one event or a batch",
        (202, 207, 409, 422),
        body=models.EventBody,
        content="document",
        query=("lens",),
        once="event",
    ),
    Route("GET", f"{_W}/root", "read", history.root, "state root and root", query=("at",)),
    Route(
        "GET",
        f"{_W}/trace",
        "read",
        causes.show_trace,
        "what an event led to",
        query=(*causes.SUBJECT, "format", "wait_ms", "at"),
    ),
    Route(
        "GET",
        f"{_W}/graph",
        "read",
        causes.show_graph,
        "what led to what",
        query=(*causes.SUBJECT, "format", "at"),
    ),
    Route(
        "GET",
        f"{_W}/explain",
        "read",
        causes.show_explain,
        "why it waits, or was refused",
        query=(*causes.SUBJECT, "at"),
    ),
    Route("GET", f"{_W}/stats", "read", causes.show_stats, "figures", query=("wait_ms", "at")),
    Route(
        "GET",
        f"{_W}/diff",
        "read",
        causes.show_diff,
        "two worlds compared",
        query=("with", "with_at", *_PAGE),
    ),
    Route("GET", f"{_W}/journal/head", "read", history.head, "where the journal ends"),
    Route(
        "GET",
        f"{_W}/journal",
        "read",
        history.rows,
        "records in order",
        query=(*_PAGE, "from", "kind", "workflow", "key", "intent"),
    ),
    Route("GET", f"{_W}/journal/{{seq}}", "read", history.show, "one record whole"),
    Route(
        "GET",
        f"{_W}/feed",
        "read",
        feed.feed,
        "durable frames as they come",
        (200, 416),
        query=("after", "kind", "workflow", "key", "effect"),
    ),
    Route("GET", f"{_W}/snapshots", "read", worlds.list_snapshots, "pinned roots"),
    Route(
        "POST",
        f"{_W}/snapshots",
        "operate",
        worlds.take_snapshot,
        "pin the roots of now",
        (201,),
        body=models.NewSnapshot,
        content="document",
        once="kept",
    ),
    Route(
        "POST",
        f"{_W}/forks",
        "fork",
        worlds.fork,
        "a world that begins where this one stood",
        (201, 409),
        body=models.NewFork,
        content="document",
        once="kept",
    ),
    Route(
        "POST",
        f"{_W}/verify",
        "read",
        ops.verify,
        "check hashes, seals and roots",
        body=models.VerifyOptions,
        content="document",
    ),
    Route(
        "POST",
        f"{_W}/replay",
        "read",
        ops.replay,
        "run the ticks again and compare",
        body=models.ReplayOptions,
        content="document",
    ),
    Route("PUT", f"{_W}/blobs", "send", history.put_blob, "keep bytes", (201,), content="bytes"),
    Route(
        "GET",
        f"{_W}/blobs/{{hash}}",
        "read",
        history.get_blob,
        "the bytes of a hash",
        (200, 206, 416),
    ),
    Route("GET", f"{_W}/keys", "admin", tokens.list_keys, "trusted keys", query=("at",)),
    Route(
        "POST",
        f"{_W}/keys",
        "admin",
        tokens.trust_key,
        "trust a key",
        (202, 409, 422),
        body=models.NewKey,
        content="document",
        once="kept",
    ),
    Route(
        "DELETE",
        f"{_W}/keys/{{key}}",
        "admin",
        tokens.revoke_key,
        "stop trusting a key",
        (202,),
        body=models.RevokeBody,
        content="document",
    ),
)

CELLS: Final = (
    Route(
        "GET",
        f"{_W}/cells",
        "read",
        cells.list_cells,
        "cells in brief",
        query=(*_PAGE, "workflow", "status"),
    ),
    # `?key=` holds a key that no path can: behind `-`, as `.../cells/WORKFLOW/-?key=..`.
    Route("GET", _CELL, "read", cells.show_cell, "one cell whole", query=("key", "at")),
    Route(
        "GET",
        f"{_CELL}/trace",
        "read",
        cells.trace_cell,
        "what happened to it",
        query=("key", *_PAGE),
    ),
    *(
        Route(
            "POST",
            f"{_CELL}/{verb}",
            "operate",
            cells.operate_cell(verb),
            f"{verb} a cell",
            (202, 409),
            body=models.Operation,
            content="document",
            query=("key",),
            once="kept",
        )
        for verb in _CELL_VERBS
    ),
)

EFFECTS: Final = (
    Route(
        "GET",
        f"{_W}/effects",
        "read",
        effects.list_effects,
        "open effects, or those of the journal",
        query=(*_PAGE, "status", "effect", "held"),
    ),
    Route("GET", _EFFECT, "read", effects.show_effect, "both halves of one", query=("at",)),
    Route("GET", f"{_EFFECT}/why", "read", effects.why_effect, "why it waits", query=("at",)),
    *(
        Route(
            "POST",
            f"{_EFFECT}/{verb}",
            "operate",
            effects.operate_effect(verb),
            f"{verb} an open effect",
            (202, 409),
            body=models.Operation,
            content="document",
            once="kept",
        )
        for verb in _EFFECT_VERBS
    ),
    *(
        Route(
            "POST",
            f"{_EFFECT}/{decision}",
            "decide",
            effects.decide_effect(decision),
            f"{decision} an effect that is held for approval",
            (202, 403, 409),
            body=models.Decision,
            content="document",
            once="kept",
        )
        for decision in _DECISIONS
    ),
    Route(
        "POST",
        f"{_W}/receipts",
        "work",
        effects.post_receipt,
        "a sealed outcome",
        (202, 200, 409, 422),
        body=models.IntentReceipt,
        content="document",
        once="kept",
        found_again=found_again.settled,
    ),
    Route("GET", f"{_W}/asks", "read", ops.list_asks, "questions to people", query=_PAGE),
    Route(
        "POST",
        f"{_W}/asks/{{intent}}",
        "decide",
        ops.answer_ask,
        "answer a question",
        (202, 403, 409),
        body=models.AskAnswer,
        content="document",
        once="kept",
    ),
)

WORK: Final = (
    Route(
        "POST",
        "/v1/work/lease",
        "work",
        work.lease,
        "jobs for a worker",
        (200, 204),
        body=models.LeaseBody,
        content="document",
    ),
    Route(
        "POST",
        "/v1/work/{lease}/extend",
        "work",
        work.extend,
        "keep a job",
        (200, 409),
        body=models.ExtendBody,
        content="document",
    ),
    Route(
        "POST",
        "/v1/work/{lease}/progress",
        "work",
        work.progress,
        "news about a job",
        (202, 409),
        body=models.ProgressBody,
        content="document",
    ),
    Route(
        "POST",
        "/v1/work/{lease}/receipt",
        "work",
        work.receipt,
        "the outcome of a job",
        (202, 200, 409, 422),
        body=models.ReceiptBody,
        content="document",
    ),
    Route(
        "POST",
        "/v1/work/{lease}/release",
        "work",
        work.release,
        "give a job back",
        (200, 409),
        content="document",
    ),
)

TABLE: Final = Table([*NODE, *WORLD, *CELLS, *EFFECTS, *GOVERNANCE, *WORK, *EXECUTIONS, *REACTIONS])
