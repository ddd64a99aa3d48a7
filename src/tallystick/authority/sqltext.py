"""SQL as text: which class a statement has and which tables it names.

Not a parser of SQL: a reader that knows enough to be sure, and says `write` when it is not.
One statement, no comments that a server may execute; what cannot be read is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

_READ = frozenset(("select", "values", "with", "explain", "table"))
# Any of these words outside quotes makes a statement a write: rather one too many than a hole.
_WRITE_WORDS = """
insert update delete merge into create drop alter truncate grant revoke attach detach pragma vacuum
copy call do set lock analyze reindex refresh execute prepare load import comment listen notify
begin commit rollback savepoint release cluster reset discard handler load_extension writefile edit
lo_import lo_export dblink dblink_exec pg_read_file pg_write_file pg_sleep nextval setval
pg_terminate_backend set_config query_to_xml
"""
_WRITE = frozenset(_WRITE_WORDS.split())
_BEFORE_TABLES = frozenset(("from", "join", "into", "update", "table", "using", "only"))
_AFTER_TABLES = frozenset(
    ("where", "group", "order", "having", "limit", "union", "intersect", "except", "window", "set")
)
_MAX = 65536


@dataclass(frozen=True, slots=True)
class Statement:
    """The verb class `read` or `write`, and the tables named, in order."""

    verb: str
    tables: tuple[str, ...]


def read_statement(sql: object) -> Statement | None:
    """The one statement of a text, or None when it is not plainly one."""
    if type(sql) is not str or not sql or len(sql) > _MAX:
        return None
    tokens = _tokens(sql)
    if tokens is None:
        return None
    while tokens and tokens[-1] == ";":
        tokens.pop()
    if not tokens or ";" in tokens:
        return None
    words = [token.lower() for token in tokens]
    reads = words[0] in _READ and not any(_is_write(words, at) for at in range(len(words)))
    return Statement("read" if reads else "write", tuple(_tables(tokens, words)))


def statements(sql: str) -> list[str] | None:
    """The statements of a text, split at semicolons outside quotes; None when a quote is open."""
    found: list[str] = []
    begun = at = 0
    while at < len(sql):
        if sql[at] in "'\"`[":
            at = _closing(sql, at)
            if at < 0:
                return None
        elif sql[at] == ";":
            found.append(sql[begun:at])
            begun = at + 1
        at += 1
    found.append(sql[begun:])
    return [text.strip() for text in found if text.strip()]


def _is_write(words: list[str], at: int) -> bool:
    word = words[at]
    if word == "replace":
        # replace(a, b, c) is a function; REPLACE INTO is not.
        return words[at + 1 : at + 2] != ["("]
    return word in _WRITE


def _tokens(sql: str) -> list[str] | None:
    """Words, punctuation and quoted names; literals become `'`. None when something is open."""
    out: list[str] = []
    at = 0
    while at < len(sql):
        c = sql[at]
        if c.isspace():
            at += 1
        elif c.isalnum() or c == "_":
            end = at
            while end < len(sql) and (sql[end].isalnum() or sql[end] in "_$"):
                end += 1
            out.append(sql[at:end])
            at = end
        elif c in "'\"`[":
            end = _closing(sql, at)
            if end < 0:
                return None
            out.append("'" if c == "'" else '"' + sql[at + 1 : end])
            at = end + 1
        elif sql[at : at + 2] in ("--", "/*") or c in "#$\\\x00":
            return None
        else:
            out.append(c)
            at += 1
    return out


def _closing(sql: str, at: int) -> int:
    """Where a quote ends; a doubled quote, or a backslash in it, cannot be read surely: -1."""
    close = "]" if sql[at] == "[" else sql[at]
    end = sql.find(close, at + 1)
    if end < 0 or "\\" in sql[at:end] or sql[end + 1 : end + 2] == close:
        return -1
    return end


def _tables(tokens: list[str], words: list[str]) -> list[str]:
    """Every name that stands where a table may stand; what else stands there is reported too.

    A bracket or a sign in such a place is never granted, so a statement that hides a table
    behind one is refused wherever tables are restricted.
    """
    found: list[str] = []
    in_from = [False]
    expecting = False
    at = 0
    while at < len(tokens):
        sign, word = tokens[at], words[at]
        at += 1
        if word in _BEFORE_TABLES:
            expecting = in_from[-1] = True
        elif expecting and word != "lateral":
            expecting = False
            name, at = _dotted(tokens, at - 1)
            found.append(name)
        elif word in _AFTER_TABLES:
            in_from[-1] = False
        elif sign == "," and in_from[-1]:
            expecting = True
        if sign == "(":
            in_from.append(False)
        elif sign == ")" and len(in_from) > 1:
            in_from.pop()
    return found


def _dotted(tokens: list[str], at: int) -> tuple[str, int]:
    """A name with its schema, and the place behind it; a sign is its own name."""
    name = tokens[at].removeprefix('"')
    at += 1
    while tokens[at : at + 1] == ["."] and at + 1 < len(tokens):
        name += "." + tokens[at + 1].removeprefix('"')
        at += 2
    return name, at
