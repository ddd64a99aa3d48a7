"""Pages: every list is bounded, in a fixed order, and goes on from a cursor.

A cursor names the last place that was looked at, not how many came before, so a page costs the
same wherever it stands.
A filtered page looks at a bounded number of entries: it may be short, or empty, and still go on.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected

LIMIT: Final = 100
LIMIT_MAX: Final = 1000
LOOKED_MAX: Final = 2000
BYTES_MAX: Final = 768 * 1024


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
