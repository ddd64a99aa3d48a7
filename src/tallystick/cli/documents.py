"""Documents that people wrote: JSON or YAML files, read or refused with their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tallystick.errors import Rejected, SchemaMismatch
from tallystick.values.schema.jsontext import parse_json


def json_of(text: str) -> Any:
    """The value of JSON, or of `@file`; read as strictly as a node reads it.

    What is no JSON is `request.bad_json`; a key that stands twice is refused as a node would.
    """
    try:
        return parse_json(text_at(text[1:]) if text.startswith("@") else text)
    except SchemaMismatch as why:
        if why.code != "value.bad_format":
            raise
        raise Rejected(
            f"this is not JSON: {why.where['errors'][0]['got']}",
            code="request.bad_json",
            hint="quote it for your shell, or put it into a file and write @file",
        ) from why


def document_at(path: str) -> Any:
    """The one value of a file; YAML, of which JSON is a part."""
    try:
        return yaml.safe_load(text_at(path))
    except yaml.YAMLError as why:
        mark = getattr(why, "problem_mark", None)
        said = getattr(why, "problem", None) or "it is no YAML"
        raise _unread(path, str(said), None if mark is None else mark.line + 1) from why


def lines_at(path: str) -> list[Any]:
    """The values of a file of JSON lines; empty lines are passed over."""
    found: list[Any] = []
    for number, line in enumerate(text_at(path).splitlines(), 1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except ValueError as why:
                raise _unread(path, str(why), number) from why
    return found


def text_at(path: str) -> str:
    """The text of a file; refuses one that cannot be read, or is no text, with its path."""
    try:
        return Path(path).read_text("utf-8")
    except OSError as why:
        raise _unread(path, why.strerror or "it cannot be read") from why
    except UnicodeDecodeError as why:
        raise _unread(path, "it is no text in UTF-8") from why


def _unread(path: str, why: str, line: int | None = None) -> Rejected:
    place = path if line is None else f"{path}:{line}"
    where: dict[str, Any] = {"path": path} if line is None else {"path": path, "line": line}
    return Rejected(
        f"{place}: {why}",
        code="request.bad_file",
        where=where,
        hint="give a file that is there" if line is None else "correct that line",
    )
