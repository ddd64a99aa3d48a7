"""The trial of a bundle: every module is loaded once, in a process of its own (06 section 8).

What a module does while it is loaded, a loop without end or a crash of the interpreter, so harms
nobody but its proposal.
Run as `python -m tallystick.node.probe`, with the bundle's container on standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Final

from tallystick.errors import BadDefinition, TallyError
from tallystick.model.bundle import Bundle, from_zip
from tallystick.modules.runners import Runners

SECONDS: Final = 60.0
_WORDS: Final = 400


class _Blobs:
    """The blobs of one bundle."""

    def __init__(self, bundle: Bundle) -> None:
        self._held = bundle.blobs()

    def get(self, digest: bytes, /) -> bytes | None:
        return self._held.get(digest)


def probe(data: bytes) -> dict[str, Any] | None:
    """Load every workflow of a bundle; what is wrong with the first that cannot be, or None."""
    try:
        bundle = from_zip(data)
        catalogue = bundle.catalogue()
        runners = Runners(_Blobs(bundle))
        for workflow in catalogue.workflows.values():
            runners.load(catalogue, workflow)
    except TallyError as why:
        return {"code": why.code, "message": why.message}
    except Exception as why:  # noqa: BLE001 - the author's code ran here: whatever it raised is told
        return {"code": "module.no_load", "message": f"{type(why).__name__}: {why}"[:_WORDS]}
    return None


async def tried(bundle: Bundle) -> None:
    """Try a bundle in another process; raises what is wrong with it."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tallystick.node.probe",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        out, _ = await asyncio.wait_for(child.communicate(bundle.to_zip()), SECONDS)
    except TimeoutError:
        child.kill()
        await child.wait()
        raise BadDefinition(
            f"loading the modules took over {SECONDS:g} s", code="module.no_load"
        ) from None
    if child.returncode != 0:
        raise BadDefinition(
            f"loading the modules ended the process ({child.returncode})", code="module.no_load"
        )
    said = json.loads(out)
    if said is not None:
        raise BadDefinition(said["message"], code=said["code"])


if __name__ == "__main__":
    # What the author's code prints while it is loaded must not be taken for the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    os.write(answer, json.dumps(probe(sys.stdin.buffer.read())).encode())
