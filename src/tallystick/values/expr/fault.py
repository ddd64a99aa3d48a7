"""Faults of expressions, by number: P201 to P210 of 07 section 3."""

from __future__ import annotations

from tallystick.errors import Rejected

SYNTAX = "P201"
FORBIDDEN = "P202"
UNKNOWN = "P203"
BUDGET = "P204"
TYPE = "P205"
RANGE = "P208"


class ExpressionFault(Rejected):
    """An expression that cannot be read or cannot be evaluated; `code` says why.

    Scopes of other rooms may raise it too: P206 keychain, P207 reference, P209 loop, P210 scope.
    """

    default_code = "P201"
    status = 422
    default_hint = "see the expression language in the playbook reference"


def fault(code: str, message: str) -> ExpressionFault:
    """A fault ready to be raised."""
    return ExpressionFault(message, code=code)
