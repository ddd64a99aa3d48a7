"""The dialect of chat completions: `POST /chat/completions` with `stream: true`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from tallystick.executors.llm_base import Question, Reply, Tell
from tallystick.executors.llm_remote import finished, refuse_error


class OpenAi:
    """Chat completions, as many services speak them."""

    path = "/chat/completions"
    url = "https://api.openai.com/v1"

    def headers(self, key: str | None) -> dict[str, str]:
        """A bearer token; a service on this machine may want none."""
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def body(self, question: Question) -> dict[str, Any]:
        """Model, messages and bound; usage is asked for, as budgets are settled by it."""
        return {
            "model": question.model,
            "messages": question.messages,
            "max_tokens": question.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    async def read(self, stream: AsyncIterator[Any], tell: Tell) -> Reply:
        """Put together the pieces of the first choice."""
        parts: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        finish = ""
        usage: Mapping[str, Any] = {}
        async for event in stream:
            refuse_error(event)
            usage = event.get("usage") or usage
            for choice in event.get("choices", ())[:1]:
                delta = choice.get("delta") or {}
                finish = choice.get("finish_reason") or finish
                if delta.get("content"):
                    parts.append(delta["content"])
                    await tell(delta["content"])
                for piece in delta.get("tool_calls") or ():
                    _add_call(calls, piece)
        text = "".join(parts)
        output: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            output["tool_calls"] = [calls[at] for at in sorted(calls)]
        heard, said = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        return Reply(text, output, finished(finish, {}), int(heard), int(said))


def _add_call(calls: dict[int, dict[str, Any]], piece: Mapping[str, Any]) -> None:
    """Add a piece of a tool call; its arguments come as a text in parts."""
    call = calls.setdefault(int(piece.get("index", 0)), {"id": "", "name": "", "arguments": ""})
    made = piece.get("function") or {}
    call["id"] = piece.get("id") or call["id"]
    call["name"] += made.get("name") or ""
    call["arguments"] += made.get("arguments") or ""
