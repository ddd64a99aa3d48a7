"""The dialect of messages: `POST /messages` with `stream: true`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tallystick.executors.llm_base import Question, Reply, Tell, all_text
from tallystick.executors.llm_remote import finished, refuse_error

VERSION: Final = "2023-06-01"
_FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}


class Anthropic:
    """Messages, made of blocks."""

    path = "/messages"
    url = "https://api.anthropic.com/v1"

    def headers(self, key: str | None) -> dict[str, str]:
        """The key has its own header, and the version of the protocol is fixed."""
        version = {"anthropic-version": VERSION}
        return version if key is None else {"x-api-key": key, **version}

    def body(self, question: Question) -> dict[str, Any]:
        """System messages have a field of their own there."""
        system = [m for m in question.messages if m.get("role") == "system"]
        return {
            "model": question.model,
            "messages": [m for m in question.messages if m.get("role") != "system"],
            "max_tokens": question.max_tokens,
            "stream": True,
            **({"system": all_text(system)} if system else {}),
        }

    async def read(self, stream: AsyncIterator[Any], tell: Tell) -> Reply:
        """Put together the blocks of the message."""
        blocks: dict[int, dict[str, Any]] = {}
        finish, heard, said = "", 0, 0
        async for event in stream:
            refuse_error(event)
            match event.get("type"):
                case "message_start":
                    heard = int(event["message"]["usage"]["input_tokens"])
                case "content_block_start":
                    blocks[event["index"]] = dict(event["content_block"])
                case "content_block_delta":
                    await _add_delta(blocks[event["index"]], event["delta"], tell)
                case "message_delta":
                    finish = event["delta"].get("stop_reason") or finish
                    said = int(event["usage"]["output_tokens"])
                case _:
                    pass  # pings, and kinds that a later protocol may bring
        content = [blocks[at] for at in sorted(blocks)]
        text = "".join(block.get("text", "") for block in content)
        output = {"role": "assistant", "content": content}
        return Reply(text, output, finished(finish, _FINISH), heard, said)


async def _add_delta(block: dict[str, Any], delta: Mapping[str, Any], tell: Tell) -> None:
    """Add a piece to its block: text is told, the input of a tool comes as JSON in parts."""
    if delta["type"] == "text_delta":
        block["text"] = block.get("text", "") + delta["text"]
        await tell(delta["text"])
    elif delta["type"] == "input_json_delta":
        block["partial_json"] = block.get("partial_json", "") + delta["partial_json"]
