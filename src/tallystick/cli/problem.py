"""Problems: an error of the node as an exception again, and an exception as words or an object."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from typing import Any, Final

from tallystick.cli.request import Reply
from tallystick.errors import DiskFull, Rejected, TallyError, Unavailable


class Refused(Rejected):
    """What a node answered instead of what was asked; it ends like the error it was."""

    def __init__(self, problem: dict[str, Any], status: int) -> None:
        super().__init__(
            str(problem.get("detail", "the node gave no reason")),
            code=str(problem.get("code", "node.unexplained")),
            where=problem.get("where") if isinstance(problem.get("where"), dict) else {},
            hint=str(problem.get("hint", "")),
        )
        self.title = str(problem.get("title", type(self).__name__))
        self.status = status  # type: ignore[misc]  # the status of this answer, not of the class
        self.exit_code = _exit_code(str(problem.get("title", "")), status)  # type: ignore[misc]  # likewise


def error_of(reply: Reply) -> Refused:
    """The refusal that a reply of 400 and above holds."""
    try:
        held = json.loads(reply.body)
    except ValueError:
        held = {"detail": f"the node answered {reply.status} without a problem object"}
    return Refused(held if isinstance(held, dict) else {}, reply.status)


def _classes(root: type[TallyError] = TallyError) -> Iterator[type[TallyError]]:
    for child in root.__subclasses__():
        yield child
        yield from _classes(child)


# By status, for a class that this release does not know.
_BY_STATUS: Final = {403: 1, 409: 1, 401: 1, 429: 3, 503: 3, 507: 3}


def _exit_code(title: str, status: int) -> int:
    for cls in _classes():
        if cls.__name__ == title:
            return cls.exit_code
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return Unavailable.exit_code if status >= 500 else Rejected.exit_code


def of_file(why: OSError) -> TallyError | None:
    """A full disk, or a file that cannot be used, as an error of ours; None for other trouble."""
    if why.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk is full: {why}", hint="free space, and try again")
    if why.filename is None:
        return None
    path = str(why.filename)
    return Rejected(
        f"{path}: {why.strerror or 'it cannot be used'}",
        code="request.bad_file",
        where={"path": path},
        hint="name a file or folder that this user may use",
    )


def problem_object(error: TallyError) -> dict[str, Any]:
    """The problem object of the API for an error that was raised here."""
    return {
        "type": f"urn:tallystick:error:{error.code}",
        "title": getattr(error, "title", type(error).__name__),
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "where": error.where,
        "hint": error.hint,
    }
