"""Revoking the grant of a tool reaches the steps that use it, however large their params are."""

from __future__ import annotations

import pytest

from tallystick.kernel.inputs import RevokeGrant
from tallystick.kernel.parts import INLINE_VALUE_MAX
from tallystick.model.records import IntentOpened, ReceiptSettled
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.rig import check

STEP = (
    HEAD
    + """workflow:
  - step: a
    loop: {in: ["%s"], iterator: word}
    tool: {kind: python, args: {word: "{{ iter.word }}"}, code: y}
"""
)


@pytest.mark.clause("X-24", "K-29")
@pytest.mark.parametrize("size", [1, INLINE_VALUE_MAX + 1], ids=["inline", "by digest"])
@pytest.mark.parametrize("kind", ["python", "http"])
def test_a_revoked_tool_ends_the_step_that_uses_it(size: int, kind: str) -> None:
    """PB-22: the tools of a step are read from its params, also where those stand by digest.

    The control is the grant of a tool that the step does not use.
    """
    rig = PlayRig()
    rig.request(STEP % ("x" * size), grants={"python": {}, "http": {}})
    (opened,) = rig.records(IntentOpened)
    assert (opened.params is None) == (size > INLINE_VALUE_MAX)
    rig.do(RevokeGrant(rig.clock.sample(), f"tool.{kind}@e1", "bob", "misused", True))
    rig.run()
    ended = [each.status for each in rig.records(ReceiptSettled) if each.intent == opened.intent]
    assert ended == (["cancelled"] if kind == "python" else [])
    assert rig.net()["status"] == ("failed" if kind == "python" else None)
    check(rig)
