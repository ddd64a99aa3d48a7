"""The routes of governance (06 section 11)."""

from __future__ import annotations

from typing import Final

from tallystick.api import effects, found_again, models, proposals
from tallystick.api.routes import Route

_W: Final = "/v1/worlds/{w}"
_ALL: Final = _W + "/proposals"
_ONE: Final = _ALL + "/{proposal}"

GOVERNANCE: Final = (
    Route(
        "GET",
        _ALL,
        "read",
        proposals.list_proposals,
        "changes that were proposed",
        query=("limit", "after", "at", "state"),
    ),
    Route(
        "POST",
        _ALL,
        "propose",
        proposals.propose,
        "propose a patch or a bundle",
        (201, 403, 409, 422),
        body=models.NewProposal,
        content="large",
        once="kept",
        found_again=found_again.proposed,
    ),
    Route("GET", _ONE, "read", proposals.show_proposal, "one proposal whole", query=("at",)),
    Route(
        "GET",
        f"{_ONE}/report",
        "read",
        proposals.show_report,
        "the report of a shadow or of a proof",
        query=("kind", "at"),
    ),
    *(
        Route(
            "POST",
            f"{_ONE}/{decision}",
            "approve",
            proposals.vote(decision),
            f"{decision} a proposal",
            (202, 403, 409),
            body=models.VoteBody,
            content="document",
            once="kept",
            found_again=found_again.voted,
        )
        for decision in ("approve", "reject")
    ),
    Route(
        "POST",
        f"{_ONE}/shadow",
        "propose",
        proposals.shadow,
        "try a proposal on the recorded tail",
        (202, 403, 409),
        body=models.ShadowBody,
        content="document",
        once="kept",
        found_again=found_again.tried,
    ),
    Route(
        "POST",
        f"{_ONE}/prove",
        "propose",
        proposals.prove,
        "a verdict on every open cell",
        (202, 403, 409),
        body=models.ProveBody,
        content="document",
        once="kept",
        found_again=found_again.tried,
    ),
    Route(
        "POST",
        f"{_ONE}/apply",
        "apply",
        proposals.apply,
        "switch to the bundle of a proposal",
        (202, 403, 409, 422),
        body=models.ApplyBody,
        content="document",
        once="kept",
        found_again=found_again.applied,
    ),
    Route(
        "GET", f"{_W}/authority", "read", proposals.show_authority, "who may do what", query=("at",)
    ),
    Route("GET", f"{_W}/reruns", "read", proposals.show_reruns, "what is being run again"),
    Route("GET", f"{_W}/flows", "read", proposals.show_flows, "how full flows are", query=("at",)),
    Route(
        "GET", f"{_W}/pins", "read", proposals.show_pins, "cells under older code", query=("at",)
    ),
    Route(
        "POST",
        f"{_W}/explain",
        "read",
        proposals.judge,
        "what admission would say to a request",
        body=models.MadeUp,
        content="document",
        query=("at",),
    ),
    Route(
        "POST",
        f"{_W}/grants/{{grant}}/revoke",
        "revoke",
        effects.revoke_grant,
        "revoke a grant and all that derives from it",
        (202,),
        body=models.RevokeGrantBody,
        content="document",
        once="kept",
    ),
)
