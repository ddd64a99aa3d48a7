"""RFC 6901 pointers: the one way a place inside a value or a type is written."""

from __future__ import annotations


def under(path: str, token: str | int) -> str:
    """The pointer to a member of the value at `path`."""
    if isinstance(token, int):
        return f"{path}/{token}"
    if "~" in token or "/" in token:
        token = token.replace("~", "~0").replace("/", "~1")
    return f"{path}/{token}"
