"""Pages: every list is bounded, in a fixed order, and goes on from a cursor.

A cursor names the last place that was looked at, not how many came before, so a page costs the
same wherever it stands.
A filtered page looks at a bounded number of entries: it may be short, or empty, and still go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected
from tallystick.values.names import nearest

LIMIT: Final = 100
LIMIT_MAX: Final = 1000
LOOKED_MAX: Final = 2000
BYTES_MAX: Final = 768 * 1024
_FEW: Final = 20  # words are told all; of more, the one that was perhaps meant
_MANY: Final = 50


class Page(NamedTuple):
    """How many items are wanted, behind which cursor, and how far one page may go for them.

    `looked_max` bounds the entries that are looked at, `bytes_max` the size of a page of records.
    """

    limit: int = LIMIT
    after: str | None = None
    looked_max: int = LOOKED_MAX
    bytes_max: int = BYTES_MAX

    def checked(self) -> Page:
        """The page itself; refuses a limit outside 1..1000."""
        if 1 <= self.limit <= LIMIT_MAX:
            return self
        raise Rejected(
            f"a page holds 1 to {LIMIT_MAX} items, not {self.limit}",
            code="list.bad_limit",
            where={"limit": self.limit},
            hint=f"ask for at most {LIMIT_MAX} and go on with `after`",
        )


def listed(items: list[Any], following: str | None, as_of: int) -> dict[str, Any]:
    """The one shape of a list."""
    return {"items": items, "next": following, "as_of": as_of}


def cut(rows: Sequence[Mapping[str, Any]], page: Page, name: str, as_of: int) -> dict[str, Any]:
    """A page of rows that are in their order; the cursor is a field that no two rows share."""
    begin = 0
    if page.after is not None:
        places = (place for place, row in enumerate(rows, 1) if str(row[name]) == page.after)
        begin = next(places, 0)
        if not begin:
            raise bad_cursor(page.after)
    items = list(rows[begin : begin + page.limit])
    more = begin + len(items) < len(rows)
    return listed(items, str(items[-1][name]) if more else None, as_of)


def known(name: str, given: str | None, words: Iterable[str]) -> str | None:
    """What a list is filtered by; refuses a word that nothing has: its list would be empty."""
    of = sorted(words)
    if given is None or given in of:
        return given
    raise Rejected(
        f"nothing has the {name} {given[:200]!r}",
        code="request.bad_query",
        where={"path": f"?{name}", "got": given[:200]},
        hint=(len(of) > _FEW and nearest(given, of)) or f"use one of {', '.join(of[:_MANY])}",
    )


def bad_cursor(given: str) -> Rejected:
    """The refusal of a cursor that no list has given out."""
    return Rejected(
        "the cursor is not one of this list",
        code="list.bad_cursor",
        where={"after": given[:200]},
        hint="give `next` of the page before, unchanged",
    )


def digest_cursor(given: str) -> bytes:
    """A cursor that is the digest in hex of the last entry; refuses anything else."""
    try:
        raw = bytes.fromhex(given)
    except ValueError:
        raise bad_cursor(given) from None
    if len(raw) != 32 or raw.hex() != given:
        raise bad_cursor(given)
    return raw


def number_cursor(given: str) -> int:
    """A cursor that is a sequence number; refuses anything else."""
    if not given.isascii() or not given.isdigit() or len(given) > 19:
        raise bad_cursor(given)
    return int(given)
