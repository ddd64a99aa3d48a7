"""The kinds of tools: which inputs each knows, which it needs, and what runs it.

An input may have a second spelling; the normal form has the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """One kind of tool: `needs` lists groups of inputs of which one must be there."""

    inputs: frozenset[str]
    needs: tuple[tuple[str, ...], ...]
    spellings: Mapping[str, str]
    # Kinds that wait without holding a worker are opened by the cell itself.
    yields: bool = False


def _kind(
    inputs: str, *needs: str, spellings: Mapping[str, str] | None = None, yields: bool = False
) -> Kind:
    groups = tuple(tuple(group.split("|")) for group in needs)
    return Kind(frozenset(inputs.split()), groups, spellings or {}, yields)


_SQL: Final = "driver database command params auth"
_QUERY: Final = {"query": "command"}

KINDS: Final[Mapping[str, Kind]] = {
    "python": _kind("code code_b64 libs", "code|code_b64"),
    "http": _kind(
        "method url headers params body auth",
        "url",
        spellings={"endpoint": "url", "payload": "body", "json": "body", "data": "body"},
    ),
    "shell": _kind("cmd cmds cwd env", "cmd|cmds"),
    "sql": _kind(_SQL, "command", spellings=_QUERY),
    "postgres": _kind(_SQL, "command", spellings=_QUERY),
    "duckdb": _kind(_SQL, "command", spellings={**_QUERY, "commands": "command"}),
    "playbook": _kind(
        "path hash return_step", "path|hash", spellings={"payload": "args"}, yields=True
    ),
    "workbook": _kind("task", "task|name"),
    "noop": _kind(""),
    "wait": _kind("for until signal timeout", "for|until|signal", yields=True),
    "human": _kind("prompt form assignees choices timeout", "prompt", yields=True),
    "file": _kind("action path text data workspace", "action", "path"),
    "llm": _kind(
        "provider model prompt messages schema max_tokens options", "model", "prompt|messages"
    ),
    "artifact": _kind("action"),
    "secrets": _kind("provider", "provider"),
}

TASK_KEYS: Final = frozenset(("name", "kind", "spec", "args", "desc", "assert"))
SPEC_KEYS: Final = frozenset(("timeout", "timeout_s", "policy", "result", "retry", "failure"))

# Grants are given by family: an alias of a kind needs no slot of its own.
FAMILY: Final[Mapping[str, str]] = {"postgres": "sql", "duckdb": "sql"}
NEEDS_GRANT: Final = frozenset(("python", "http", "shell", "sql", "file", "llm"))
