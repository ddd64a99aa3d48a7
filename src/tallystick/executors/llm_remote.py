"""A provider behind a URL: one request, one event stream, in the dialect of its service.

    [executors.llm.providers.openai]
    url = "https://api.openai.com/v1"
    api_key = "env:OPENAI_API_KEY"

Each piece of text is told as it comes; the reply is whole only when the service says how it
finished, so a stream that breaks off is a failure and never a short answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tallystick.errors import Rejected, TallyError
from tallystick.executors.base import Failed, Secrets
from tallystick.executors.llm_base import Question, Reply, Tell
from tallystick.executors.llm_wire import ModelService, failed_of

STREAM_BYTES_MAX: Final = 16 * 2**20


class Dialect(Protocol):
    """How one kind of service is spoken to."""

    @property
    def path(self) -> str:
        """Where requests go, below the URL."""
        ...

    @property
    def url(self) -> str:
        """The URL when settings name none."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers that carry the key."""
        ...

    def body(self, question: Question) -> dict[str, Any]:
        """The fields of the request; options of the question may add to them, not change them."""
        ...

    async def read(self, stream: AsyncIterator[Any], tell: Tell) -> Reply:
        """The reply that a stream of documents makes; refuses one without an end."""
        ...


@dataclass(frozen=True, slots=True)
class OwnKey:
    """The key that the settings of a provider bind, read when it is needed."""

    provider: str
    binding: str
    secrets: Secrets

    def value(self) -> str:
        """The plain key."""
        return self.secrets.value(self.binding)


class RemoteProvider:
    """Answers questions over the wire."""

    def __init__(self, dialect: Dialect, settings: Mapping[str, Any], own: OwnKey | None) -> None:
        self._dialect = dialect
        self._own = own
        url = str(settings.get("url", dialect.url))
        self._service = ModelService(url, int(settings.get("max_bytes", STREAM_BYTES_MAX)))

    async def generate(self, question: Question, tell: Tell) -> Reply | Failed:
        """Ask, and put the stream together."""
        speak = self._dialect
        own = self._own.value() if question.api_key is None and self._own is not None else None
        headers = speak.headers(question.api_key if own is None else own)
        body = {**question.options, **speak.body(question)}
        try:
            sent = self._service.events(speak.path, headers, body, question.seconds)
            async with sent as stream:
                return await speak.read(stream, tell)
        except TallyError as why:
            return failed_of(why)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as why:
            # What a service sends is not ours to trust, down to the shape of its documents.
            message = f"the stream is not as it should be: {type(why).__name__} {why}"
            return Failed("server_error", "llm.bad_stream", message)

    def own_secrets(self) -> Mapping[str, str]:
        """The key of its settings, under the name of the provider."""
        return {} if self._own is None else {f"llm.{self._own.provider}": self._own.value()}

    async def close(self) -> None:
        """Close its connections."""
        await self._service.close()


def refuse_error(event: Any) -> None:
    """A service may fail in the middle of a stream that began well."""
    error = event.get("error") if isinstance(event, dict) else "a document that is no object"
    if error is not None:
        said = error.get("message", "") if isinstance(error, dict) else error
        raise Rejected(f"the stream says: {str(said)[:500]}", code="llm.stream_error")


def finished(said: str, words: Mapping[str, str]) -> str:
    """How a reply ended, in one set of words; a stream that never says is cut."""
    if not said:
        raise Rejected("the stream ended before the reply did", code="llm.cut")
    return words.get(said, str(said))
