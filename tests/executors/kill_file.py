"""A program that begins file effects in processes that kill themselves at one step.

It is started by `test_file_kill.py`, through `killing.py`.
With `plain` it writes in place, as a naive program would: the defect the test must find.
"""

from __future__ import annotations

from pathlib import Path

from tallystick.executors.file import FileExecutor, FileSettings
from tests.executors.attempts import done, job_of
from tests.executors.killing import die, serve


def plainly(target: Path, content: bytes, step: str) -> None:
    """Write the file as if nothing could happen meanwhile."""
    with target.open("wb") as file:
        file.write(content[: len(content) // 2])
        file.flush()
        if step == "created":
            die()
        file.write(content[len(content) // 2 :])
    if step == "placed":
        die()


def act(root: str, effect: str, content: str, step: str) -> None:
    if effect == "plain":
        plainly(Path(root) / "a.txt", content.encode(), step)
        return

    def at(here: str) -> None:
        if here == step:
            die()

    params: dict[str, object] = {"workspace": "project", "path": "a.txt"}
    if content:
        params["content"] = content.encode()
    done(FileExecutor(FileSettings({"project": Path(root)}), at), job_of(effect, params))


if __name__ == "__main__":
    serve(act)
