"""The routes of playbooks and their executions (07 section 8)."""

from __future__ import annotations

from typing import Final

from tallystick.api import executions, found_again, models
from tallystick.api.routes import Route

_W: Final = "/v1/worlds/{w}"
_PAGE: Final = ("limit", "after", "at")
_PLAY: Final = _W + "/executions"
_BOOKS: Final = _W + "/playbooks"
EXECUTIONS: Final = (
    Route("GET", _PLAY, "read", executions.list_executions, "executions", query=_PAGE),
    Route(
        "POST",
        _PLAY,
        "send",
        executions.begin,
        "play a playbook",
        (202, 422),
        body=models.NewExecution,
        content="document",
        once="kept",
        found_again=found_again.begun,
    ),
    Route("GET", _PLAY + "/{execution}", "read", executions.show, "one execution", query=("at",)),
    Route(
        "GET",
        _PLAY + "/{execution}/events",
        "read",
        executions.events,
        "what happened in an execution",
        query=_PAGE,
    ),
    Route(
        "GET",
        _PLAY + "/{execution}/graph",
        "read",
        executions.graph,
        "an execution as a drawing",
        query=("format", "at"),
    ),
    Route("GET", _BOOKS, "read", executions.list_playbooks, "published playbooks", query=("at",)),
    Route(
        "POST",
        _BOOKS,
        "send",
        executions.publish,
        "publish a playbook",
        (202, 422),
        body=models.NewPlaybook,
        content="document",
        once="kept",
        found_again=found_again.published,
    ),
    Route(
        "PATCH",
        _PLAY + "/{execution}/ctx",
        "operate",
        executions.patch,
        "write variables of an execution",
        (202, 409),
        body=models.PlayPatch,
        content="document",
        once="kept",
    ),
    Route(
        "POST",
        _PLAY + "/{execution}/signals/{name}",
        "send",
        executions.signal,
        "a signal to an execution",
        (202, 409),
        body=models.PlaySignal,
        content="document",
        once="kept",
    ),
    Route(
        "POST",
        _PLAY + "/{execution}/cancel",
        "operate",
        executions.cancel,
        "end an execution now",
        (202, 409),
        body=models.Operation,
        content="document",
        once="kept",
    ),
)
