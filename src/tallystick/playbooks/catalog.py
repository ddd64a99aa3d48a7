"""The catalogue: one cell per path, with the versions that were published there (07 section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

VERSIONS_MAX: Final = 1_000


def published(state: Mapping[str, Any] | None, event: Mapping[str, Any]) -> dict[str, Any]:
    """The versions of a path with one more; the newest is the last, and none is there twice."""
    row = {"hash": event["hash"], "principal": event["principal"]}
    before = [] if state is None else state["versions"]
    versions = [each for each in before if each["hash"] != event["hash"]]
    return {"path": event["path"], "versions": [*versions, row][-VERSIONS_MAX:]}
