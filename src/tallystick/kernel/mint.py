"""Minted grants: what an admin allows the tools of one execution, with its request (06 section 2).

The request names kinds of tools and the params of their grants; what is allowed are the records
`GrantMinted` in the same frame, each in a slot `tool.<kind>` of the cell that the request begins.
A request that a workflow sends mints nothing: there the caller's own grants are passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.errors import Conflict, Rejected, SchemaMismatch
from tallystick.kernel.draft import Draft
from tallystick.model.catalogue import Catalogue, grant_hash
from tallystick.model.records import GrantMinted, Target
from tallystick.values import canon

REQUEST: Final = "sys/PlayRequested@1"
# A kind of tool -> the capability whose grants say what it may do.
TOOL_CAPS: Final[Mapping[str, str]] = {
    "file": "sys/file@1",
    "http": "sys/http.out@1",
    "llm": "sys/llm@1",
    "python": "sys/python@1",
    "shell": "sys/shell@1",
    "sql": "sys/sql@1",
}


def mint(draft: Draft, value: Mapping[str, Any], targets: tuple[Target, ...]) -> None:
    """Record the grants that a request asks for; refuses what no capability knows."""
    wanted = value["grants"] or {}
    catalogue = draft.world.active.catalogue
    for target in targets if wanted else ():
        if not target.create:
            raise Conflict(
                f"execution {value['execution']} has begun already; its grants are what they are",
                code="execution.exists",
                where={"execution": value["execution"]},
                hint="begin another execution",
            )
        for kind in sorted(wanted):
            cap, params, digest = _granted(catalogue, kind, wanted[kind])
            name = minted_name(kind, target.key)
            place = (target.workflow, target.key, value["principal"])
            draft.add(GrantMinted(name, f"tool.{kind}", cap, params, digest, *place))


def minted_name(kind: str, key: bytes) -> str:
    """The name of a minted grant: the kind of tool, and the execution that may use it."""
    return f"tool.{kind}@{canon.decode(key)}"


def _granted(
    catalogue: Catalogue, kind: str, given: Mapping[str, Any]
) -> tuple[str, dict[str, Any], bytes]:
    """The capability, the params and the digest of one grant."""
    path = f"/grants/{kind}"
    if kind not in TOOL_CAPS:
        raise Rejected(
            f"no kind of tool is called {kind}",
            code="playbook.bad_allow",
            where={"path": path},
            hint=f"one or more of {', '.join(TOOL_CAPS)}",
        )
    cap = catalogue.caps[TOOL_CAPS[kind]]
    assert cap.params is not None, "the capabilities of tools have fields"
    try:
        made = cap.params.admit(given, "sugar").value
    except SchemaMismatch as why:
        at = why.errors[0]["path"] if why.errors else ""
        raise Rejected(
            f"a grant of {kind} is not like that: {why.message}",
            code="playbook.bad_allow",
            where={"path": f"{path}{at}"},
            hint=f"its fields are those of {cap.params.name}",
        ) from why
    params = {field: held for field, held in made.items() if held is not None}
    return cap.name, params, grant_hash(cap.hash, params, None, None)
