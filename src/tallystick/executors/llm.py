"""`llm.generate`: a question to a configured provider, its answer as data.

The text comes piece by piece as progress, kind `text`; the receipt holds the whole.
The output of the model as JSON is always a blob, `output_ref`; the text is inline up to 64 KiB.
Usage is what budgets are settled by: one call, the tokens of both ways, and cents when the
provider's settings state a price per million tokens.

    [executors.llm.providers.local]
    [executors.llm.providers.mine]
    kind = "openai"                     # the name of the provider when it is left out
    url = "http://127.0.0.1:11434/v1"
    cents_per_million_in = 0
    cents_per_million_out = 0
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, isfinite
from typing import Any, Final

from tallystick.errors import BadDefinition, Rejected, TallyError
from tallystick.executors.base import (
    INLINE_BYTES_MAX,
    ExecutorPorts,
    Failed,
    Job,
    Ok,
    Outcome,
    Repeat,
    Report,
    Secrets,
)
from tallystick.executors.llm_anthropic import Anthropic
from tallystick.executors.llm_base import Letters, Provider, Question, Reply, whole
from tallystick.executors.llm_local import LocalProvider
from tallystick.executors.llm_openai import OpenAi
from tallystick.executors.llm_remote import Dialect, OwnKey, RemoteProvider
from tallystick.executors.scrub import ScrubbedBlobs, Scrubber, StreamScrubber

_MILLION: Final = 1_000_000


LOCAL: Final = "local"
DIALECTS: Final[Mapping[str, Dialect]] = {"anthropic": Anthropic(), "openai": OpenAi()}


class LlmExecutor:
    """Performs `sys/llm.generate@1` with the providers of its settings."""

    name = "llm"
    effects = frozenset(("sys/llm.generate@1",))
    repeat: Repeat = "again"

    def __init__(self, settings: Mapping[str, Any], ports: ExecutorPorts) -> None:
        self.slots = int(settings.get("slots", 8))
        self._timeout_s = float(settings.get("timeout_s", 60))
        self._now_ns = ports.now_ns
        self._settings: Mapping[str, Mapping[str, Any]] = settings.get("providers", {"local": {}})
        self._providers = {
            name: _provider(name, each, ports.secrets) for name, each in self._settings.items()
        }

    async def perform(self, job: Job, report: Report) -> Outcome:
        """Ask the provider that params name; nothing of its own key gets out."""
        provider = self._providers.get(job.params["provider"])
        if provider is None:
            known = ", ".join(sorted(self._providers))
            message = f"no provider {job.params['provider']!r}; known: {known}"
            return Failed("not_found", "llm.unknown_provider", message)
        messages = job.params["messages"]
        if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
            return Failed("schema", "llm.bad_messages", "messages is not a list of objects")
        seconds = self._seconds(job)
        try:
            scrubber = Scrubber(provider.own_secrets())
        except TallyError as why:
            return Failed("auth", why.code, why.message)
        outcome: Outcome = Failed("timeout", "llm.timeout", "the model took too long")
        try:
            if seconds > 0:
                async with asyncio.timeout(seconds):
                    outcome = await self._ask(job, provider, scrubber, report)
        except TimeoutError:
            pass  # the outcome stands as it was made above
        return scrubber.outcome(outcome)

    async def cancel(self, job: Job) -> None:
        """Nothing to tell: the stream is closed with the task."""

    async def close(self) -> None:
        """Close the connections of every provider."""
        for provider in self._providers.values():
            await provider.close()

    def _seconds(self, job: Job) -> float:
        if job.deadline_ns is None:
            return self._timeout_s
        return min(self._timeout_s, (job.deadline_ns - self._now_ns()) / 1e9)

    async def _ask(
        self, job: Job, provider: Provider, scrubber: Scrubber, report: Report
    ) -> Outcome:
        params, stream, letters = job.params, StreamScrubber(scrubber), Letters()

        async def tell(text: str) -> None:
            for kind, payload in stream.feed("text", {"text": letters.take(text)}):
                await report(kind, payload)

        question = Question(
            model=params["model"],
            messages=params["messages"],
            max_tokens=params["max_tokens"],
            options=params.get("options") or {},
            api_key=job.plain("api_key"),
            seconds=self._timeout_s,
        )
        reply = await provider.generate(question, tell)
        if letters.held:
            await tell("")
        for kind, payload in stream.rest():
            await report(kind, payload)
        if isinstance(reply, Failed):
            return reply
        return self._receipt(job, reply, scrubber)

    def _receipt(self, job: Job, reply: Reply, scrubber: Scrubber) -> Ok:
        blobs = ScrubbedBlobs(job.blobs, scrubber)
        output = whole(json.dumps(reply.output, ensure_ascii=False, sort_keys=True)).encode()
        text = whole(reply.text)
        small = len(text.encode()) <= INLINE_BYTES_MAX
        usage = {
            "calls": 1,
            "tokens": reply.tokens_in + reply.tokens_out,
            "cents": self._cents(job.params["provider"], reply),
        }
        value = {
            "text": text if small else None,
            "output_ref": blobs.put(output),
            "finish": whole(reply.finish),
            "usage": usage,
        }
        return Ok(value, usage)

    def _cents(self, provider: str, reply: Reply) -> int:
        """Rounded up: a budget may be told too much, never too little."""
        price = self._settings[provider]
        paid = reply.tokens_in * Fraction(price.get("cents_per_million_in", 0))
        paid += reply.tokens_out * Fraction(price.get("cents_per_million_out", 0))
        return ceil(paid / _MILLION)


def _check(name: str, settings: Any) -> None:
    """Refuse a provider whose settings nobody could use; a wrong one would be found when paid."""
    path = f"executors.llm.providers.{name}"
    if not isinstance(settings, Mapping):
        raise _bad(path, "a provider is a table")
    for key, given in settings.items():
        rule = _KEYS.get(key)
        if rule is None:
            raise _bad(f"{path}.{key}", f"a provider has {', '.join(_KEYS)}")
        fits, wanted = rule
        if not fits(given):
            # What stands there may be a key in plain text, so it is not told.
            raise _bad(f"{path}.{key}", wanted)


def _bad(path: str, wanted: str) -> BadDefinition:
    return BadDefinition(
        f"{path}: {wanted}", code="config.value", where={"path": path}, hint="see tally.toml"
    )


def _is_text(given: Any) -> bool:
    return isinstance(given, str)


def _is_price(given: Any) -> bool:
    return type(given) in (int, float) and isfinite(given) and given >= 0


def _is_script(given: Any) -> bool:
    return isinstance(given, Mapping) and all(_is_text(each) for each in given.values())


_PRICE: Final = (_is_price, "a price is a number of cents from 0")
_TEXT: Final = (_is_text, "it is a text")
_KEYS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "kind": _TEXT,
    "url": _TEXT,
    "api_key": (
        lambda given: _is_text(given) and given.startswith(("env:", "file:", "store:")),
        "the key is a binding: env:NAME, file:NAME or store:NAME",
    ),
    "max_bytes": (lambda given: type(given) is int and given > 0, "it is a number of bytes"),
    "cents_per_million_in": _PRICE,
    "cents_per_million_out": _PRICE,
    "template": _TEXT,
    "script": (_is_script, "a script maps the hash of a prompt to a text"),
}


def _provider(name: str, settings: Mapping[str, Any], secrets: Secrets | None) -> Provider:
    _check(name, settings)
    kind = str(settings.get("kind", name))
    if kind == LOCAL:
        return LocalProvider(settings)
    if kind not in DIALECTS:
        raise Rejected(
            f"the provider {name!r} is of no known kind",
            code="llm.unknown_kind",
            where={"provider": name, "kind": kind},
            hint=f"kind is one of {', '.join((LOCAL, *DIALECTS))}",
        )
    key = settings.get("api_key")
    own = None if key is None or secrets is None else OwnKey(name, str(key), secrets)
    return RemoteProvider(DIALECTS[kind], settings, own)


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> LlmExecutor:
    """The executor `llm` as settings describe it."""
    return LlmExecutor(settings, ports)
