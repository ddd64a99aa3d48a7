"""The one shape of "no": which stage said it, under which code, and where to look.

A denial is a value, not an exception (D6): it becomes a record and a receipt.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Denial:
    """A refused request; `rule` names the policy rule, `path` the field that was too much."""

    stage: str
    code: str
    message: str
    rule: str | None = None
    path: str | None = None
