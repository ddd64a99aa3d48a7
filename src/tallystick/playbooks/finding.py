"""What is wrong with a playbook, and where: refusals of its file, remarks about its net."""

from __future__ import annotations

from typing import NamedTuple

from tallystick.values.findings import BadFile


class Remark(NamedTuple):
    """A finding about a net: a code, its severity, the step it is about, and words."""

    code: str
    severity: str
    step: str
    message: str
    hint: str


class BadPlaybook(BadFile):
    """A playbook that the checker refuses; `findings` holds them all, by line."""

    default_code = "playbook.invalid"
