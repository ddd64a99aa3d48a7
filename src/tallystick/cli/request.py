"""Requests and replies, as the command line speaks them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; `body` is JSON unless it is bytes."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """Path and query as they go over the wire."""
        words = {key: _word(value) for key, value in self.query.items()}
        return self.path + ("?" + urlencode(words, errors="surrogateescape") if words else "")

    def content(self) -> tuple[bytes | None, dict[str, str]]:
        """The bytes of the body and all headers but the token's."""
        headers = {"Accept": "application/json", **self.headers}
        if self.body is None:
            return None, headers
        if isinstance(self.body, bytes):
            return self.body, {"Content-Type": "application/octet-stream", **headers}
        # Half a character is escaped, so that the node refuses the value by its place.
        made = json.dumps(self.body, ensure_ascii=False).encode("utf-8", "backslashreplace")
        return made, {"Content-Type": "application/json", **headers}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def _word(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
