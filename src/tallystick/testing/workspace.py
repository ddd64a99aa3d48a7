"""A simulated directory: what people and runs write survives every crash of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.model.records import IntentOpened
from tallystick.node.jobs import Published
from tallystick.testing.scene import Content
from tallystick.testing.violation import must
from tallystick.values import canon

READ: Final = "sys/file.read@1"
WRITE: Final = "sys/file.write@1"
FILES: Final = (READ, WRITE)


class Workspace:
    """Files by path, who wrote which bytes, and an executor that keeps the protocol of writes."""

    def __init__(self, writes: Mapping[str, frozenset[str]]) -> None:
        self.files: dict[str, bytes] = {}
        self.people: dict[str, bytes] = {}  # what a person has written last, by path
        self.written: dict[tuple[str, str | None], set[str]] = {}  # path, bytes: by which reactions
        self.conflicts: dict[bytes, None] = {}  # intents that met the bytes of a person
        self.content: Content = lambda _digest: None  # what the world has stored
        self._writes = writes

    def edit(self, path: str, text: str) -> None:
        """A person writes a file."""
        self.files[path] = self.people[path] = text.encode()

    def perform(self, job: Published) -> tuple[str, bytes]:
        """Status and payload of one attempt at a file effect."""
        params = canon.decode(job.params or b"")
        path = params["path"]
        body = self.files.get(path)
        if job.effect == READ:
            if body is None:
                return _failed("not_found", "file.absent")
            told = {"path": path, "content_id": canon.hash_of(body), "size": len(body)}
            return "ok", canon.encode({**told, "bytes": body, "ref": None})
        return self._change(job, params, body)

    def _change(
        self, job: Published, params: Mapping[str, Any], before: bytes | None
    ) -> tuple[str, bytes]:
        path, wanted = params["path"], params["content"]
        if wanted is None:  # recorded bytes are written again, by their hash
            wanted = self.content(canon.raw_of(params["content_ref"]))
        assert wanted is not None, "what an open intent names is in the store"
        self.check_I29(params, wanted)
        self.check_I32(params)
        found = None if before is None else canon.hash_of(before)
        post = canon.hash_of(wanted)
        status = "unchanged"
        if before != wanted:
            if not _allowed(params["expect"], found):
                self.conflicts[job.intent] = None
                return _failed("conflict", "file.conflict")
            status = "written"
            self.files[path] = wanted
        self.written.setdefault((path, post), set()).add(params["stamp"]["reaction"])
        told = {"path": path, "pre_id": found, "post_id": post, "size": len(wanted)}
        return "ok", canon.encode({**told, "status": status})

    def check_I29(self, params: Mapping[str, Any], wanted: bytes) -> None:  # noqa: N802
        """Every write of an action is stamped with the very bytes it brings."""
        stamp, post = params["stamp"], canon.hash_of(wanted)
        good = stamp is not None and (stamp["path"], stamp["post_id"]) == (params["path"], post)
        must(good, "I29", f"{params['path']} is written under the stamp {stamp}")

    def check_I32(self, params: Mapping[str, Any]) -> None:  # noqa: N802
        """No byte lands outside the declared paths."""
        may = self._writes[params["stamp"]["reaction"]]
        must(params["path"] in may, "I32", f"{params['path']} is not among {sorted(may)}")


def run_of(record: IntentOpened) -> str | None:
    """The run that asks for a write."""
    if record.effect != WRITE or record.params is None:
        return None
    stamp = canon.decode(record.params)["stamp"]
    return None if stamp is None else str(stamp["run_id"])


def _allowed(expect: Mapping[str, Any] | None, found: str | None) -> bool:
    """A stamped write may take the place it expects, or one that became empty."""
    return expect is None or found is None or found == expect.get("$value")


def _failed(kind: str, code: str) -> tuple[str, bytes]:
    told = {"kind": kind, "code": code, "message": code, "retryable": False}
    return "error", canon.encode({**told, "retry_after_ns": None, "details_ref": None})
