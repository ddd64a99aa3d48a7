"""What a provider of a language model is asked, and what it answers.

A provider turns one request into one reply and tells the text piece by piece on the way.
Whatever it says is data: nothing here runs it, and tool calls are handed on as they came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tallystick.executors.base import Failed

Tell: TypeAlias = Callable[[str], Awaitable[None]]  # a piece of text, as it comes


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a model; `api_key` is the plain key, or None when the settings give it."""

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int
    options: Mapping[str, Any]
    api_key: str | None
    seconds: float

    def __repr__(self) -> str:
        # The key stays out: a question may be logged.
        return f"Question({self.model}, {self.max_tokens} tokens)"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered: the text, the whole output as JSON, and what it took."""

    text: str
    output: Any
    finish: str
    tokens_in: int
    tokens_out: int


class Provider(Protocol):
    """Answers questions with one model service."""

    async def generate(self, question: Question, tell: Tell) -> Reply | Failed:
        """The reply, told piece by piece on the way; a failure says whose it is."""
        ...

    def own_secrets(self) -> Mapping[str, str]:
        """Secrets of its settings, by name, that no outcome may show."""
        ...

    async def close(self) -> None:
        """Give back its connections."""
        ...


def all_text(messages: Any) -> str:
    """Every text of the messages, in order."""
    return "\n".join(_texts(messages))


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for part in value for text in _texts(part)]
        case {"content": content}:
            return _texts(content)
        case {"text": text}:
            return _texts(text)
        case _:
            return []


def whole(text: str) -> str:
    """The text with the two halves of a letter joined; a half that is alone becomes a mark."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Letters:
    """The pieces of a text as whole letters: a first half at the end waits for the second."""

    def __init__(self) -> None:
        self.held = ""

    def take(self, piece: str) -> str:
        """What can be told with this piece; an empty one says that nothing follows."""
        text = self.held + piece
        waits = piece != "" and "\ud800" <= text[-1] <= "\udbff"
        self.held = text[-1] if waits else ""
        return whole(text[:-1] if waits else text)
