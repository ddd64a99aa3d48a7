"""What is wrong with the file of a reaction."""

from __future__ import annotations

from tallystick.values.findings import BadFile


class BadReaction(BadFile):
    """A reaction file that is refused; `findings` holds them all, by line."""

    default_code = "reaction.invalid"
