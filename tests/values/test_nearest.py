"""The name that was probably meant."""

from __future__ import annotations

from tallystick.values.names import NAME_MAX, nearest


def test_a_slip_of_the_pen_finds_its_name() -> None:
    """01 section 1: a refusal of an unknown name offers the closest known one."""
    assert nearest("demo/Greeet@1", ["shop/Paid@1", "demo/Greet@1"]) == "did you mean demo/Greet@1?"
    assert nearest("demo/Greet@1", []) == ""
    assert nearest("quite/Another@9", ["demo/Greet@1"]) == ""


def test_a_text_longer_than_a_name_is_not_compared() -> None:
    """F9: work that a stranger asks for is bounded by the length of a name."""
    close = "a" * (NAME_MAX + 1)
    assert nearest(close, [close]) == ""
