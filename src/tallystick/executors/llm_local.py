"""`local`: a stand-in for a model, offline and deterministic.

A prompt whose hash is in `script` gets the scripted text; any other is put into `template`.
The hash is that of model and messages, so a script can be written from `prompt_hash`.
A token is a word with the blanks before it; the answer ends with `length` at `max_tokens`.

    [executors.llm.providers.local]
    template = "You said: {prompt}"
    script = {"sha256:0c..." = "The answer is 42."}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tallystick.executors.llm_base import Question, Reply, Tell, all_text
from tallystick.values import canon

TEMPLATE: Final = "{prompt}"
_WORD: Final = re.compile(r"\s*\S+|\s+$")


def prompt_hash(model: str, messages: Any) -> str:
    """The hash under which a script finds its text."""
    return canon.hash({"$type": "prompt@1", "model": model, "messages": messages})


class LocalProvider:
    """Answers without a model."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._template = str(settings.get("template", TEMPLATE))
        self._script: Mapping[str, str] = settings.get("script", {})

    async def generate(self, question: Question, tell: Tell) -> Reply:
        """The scripted text, or the last words of the prompt in the template."""
        prompt = all_text(question.messages[-1:])
        scripted = self._script.get(prompt_hash(question.model, question.messages))
        whole = self._template.replace("{prompt}", prompt) if scripted is None else scripted
        words = _WORD.findall(whole)
        said = words[: question.max_tokens]
        for word in said:
            await tell(word)
        text = "".join(said)
        finish = "stop" if len(said) == len(words) else "length"
        heard = len(_WORD.findall(all_text(question.messages)))
        return Reply(text, {"role": "assistant", "content": text}, finish, heard, len(said))

    def own_secrets(self) -> Mapping[str, str]:
        """None: there is nobody to tell a key to."""
        return {}

    async def close(self) -> None:
        """Nothing to give back."""
