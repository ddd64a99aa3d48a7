"""What a run reads, in pages that runs over one tree share (R5).

Theory of operation.
A manifest names its rows of path and content by pages, blobs of some hundred rows each.
A page ends after a path whose own hash says so, so one edit makes one new page, whatever came or
went elsewhere, and runs over many targets of a tree share their pages.
The digest is the one of the flat list: a page only remembers how its rows are written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.reactions import ids
from tallystick.values import canon

PAGE: Final = "files@1"
_ENDS: Final = 0x7F  # one path in 128 is the last of its page
_PAIR: Final = b"\x82"
_NULL: Final = b"\xf6"
_PAGE_HEAD: Final = canon.PREFIX + b"\xa2" + canon.put_text("rows")
_PAGE_TAIL: Final = canon.put_text("$type") + canon.put_text(PAGE)
_DIGEST_HEAD: Final = (
    canon.PREFIX
    + b"\xa4"
    + canon.put_text("$type")
    + canon.put_text("inputs@1")
    + canon.put_text("files")
)


class Row(NamedTuple):
    """One file: its path, its content, how both are written, and whether its page ends here."""

    path: str
    held: str | None
    put: bytes
    ends: bool


class Page(NamedTuple):
    """Rows in their order; `data` is the blob that `hash` names."""

    rows: tuple[Row, ...]
    put: bytes
    data: bytes
    hash: str


class Listed(NamedTuple):
    """Files by path, in pages; never changed."""

    pages: tuple[Page, ...] = ()

    @property
    def names(self) -> list[str]:
        """The pages by hash: what a manifest says of its files."""
        return [page.hash for page in self.pages]

    def digest(self, frames: Iterable[Sequence[Any]], params: Mapping[str, Any]) -> str:
        """R5, as `keys.input_digest` says it of the flat list."""
        count = sum(len(page.rows) for page in self.pages)
        rest = canon.encode({"frames": sorted(list(row) for row in frames), "params": dict(params)})
        summed = sha256(_DIGEST_HEAD + canon.head(4, count))
        for page in self.pages:
            summed.update(page.put)
        # The rest of the document, without its prefix and the head of its map.
        summed.update(rest[len(canon.PREFIX) + 1 :])
        return ids.text(summed.digest())

    def with_changes(self, changed: Mapping[str, Row | None]) -> Listed:
        """The next one: what `changed` names is as it says, None is gone."""
        if not self.pages:
            return _paged(row for row in changed.values() if row is not None)
        last = len(self.pages) - 1
        ends = [page.rows[-1].path for page in self.pages]
        touched: dict[int, dict[str, Row | None]] = {}
        for path, row in changed.items():
            touched.setdefault(min(bisect_left(ends, path), last), {})[path] = row
        made: list[Page] = []
        waiting: dict[str, Row] = {}
        for at, page in enumerate(self.pages):
            if at not in touched and not waiting:
                made.append(page)
                continue
            waiting.update((row.path, row) for row in page.rows)
            for path, row in touched.get(at, {}).items():
                if row is None:
                    waiting.pop(path, None)
                else:
                    waiting[path] = row
            # Without the row that ended it, a page goes on into the next one.
            if at == last or (waiting and waiting[max(waiting)].ends):
                made += _paged(waiting.values()).pages
                waiting = {}
        return Listed(tuple(made))


def row_of(path: str, held: str | None) -> Row:
    """One file as a row."""
    put = _PAIR + canon.put_text(path) + (_NULL if held is None else canon.put_text(held))
    name = path.encode("utf-8", "surrogatepass")
    return Row(path, held, put, sha256(name).digest()[0] & _ENDS == 0)


def listed(files: Iterable[tuple[str, str | None]]) -> Listed:
    """Files in pages, by path."""
    return _paged(row_of(path, held) for path, held in files)


def _paged(rows: Iterable[Row]) -> Listed:
    made: list[Page] = []
    here: list[Row] = []
    for row in sorted(rows):
        here.append(row)
        if row.ends:
            made.append(_page(here))
            here = []
    if here:
        made.append(_page(here))
    return Listed(tuple(made))


def _page(rows: list[Row]) -> Page:
    put = b"".join([row.put for row in rows])
    data = _PAGE_HEAD + canon.head(4, len(rows)) + put + _PAGE_TAIL
    return Page(tuple(rows), put, data, canon.hash_of(data))


# ---- reading --------------------------------------------------------------------------------


class Manifest(Mapping[str, Any]):
    """A manifest as it is read back: its files and outputs come when somebody asks for them."""

    def __init__(self, data: bytes, content: Callable[[str], bytes]) -> None:
        self.body: dict[str, Any] = canon.decode(data)
        self._content = content
        self._rows: dict[str, list[list[Any]]] = {}

    def __getitem__(self, name: str) -> Any:
        """A field; `files` and `outputs` as rows of path and content."""
        if name not in ("files", "outputs"):
            return self.body[name]
        if name not in self._rows:
            pages = [canon.decode(self._content(page)) for page in self.body[name]]
            self._rows[name] = [row for page in pages for row in page["rows"]]
        return self._rows[name]

    def __iter__(self) -> Any:
        return iter(self.body)

    def __len__(self) -> int:
        return len(self.body)
