"""The kit that users get finds defects that are seeded into a user's workflow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOP = ROOT / "examples" / "02-order-payment"
# Each is a mistake that people make; the tests of the example are left as they are.
SEEDED = {
    "none": ("", "", 0),
    # A retry is another act for the payment service: the customer pays twice.
    "token of the attempt": (
        "Charge(token=order.order_id,",
        'Charge(token=f"{order.order_id}/{order.retry.attempt}",',
        1,
    ),
    # What is remembered beside the state is gone at a replay: the journal says another thing.
    "state beside the state": (
        "    ctx.effect(request, key=",
        """    ASKED.append(order.order_id)
    request = request.replace(cents=order.cents + len(ASKED) // 2)
    ctx.effect(request, key=""",
        1,
    ),
}
LEAN = [
    part
    for name in ("randomly", "xdist", "hypothesispytest", "pytest_cov", "cacheprovider")
    for part in ("-p", f"no:{name}")
]


@pytest.mark.clause("K-48")
@pytest.mark.parametrize("name", SEEDED)
def test_a_seeded_defect_is_found(
    name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RL-14: the example passes its own tests under the plugin; with each defect it does not."""
    old, new, code = SEEDED[name]
    text = (SHOP / "app.py").read_text("utf-8")
    assert old in text
    text = text.replace(old, new, 1)
    if "ASKED" in text:
        text = text.replace("BACKOFF = ", "ASKED: list[str] = []\nBACKOFF = ", 1)
    (pytester.path / "app.py").write_text(text, "utf-8")
    shutil.copy(SHOP / "test_app.py", pytester.path)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}")
    done = pytester.runpytest_subprocess(*LEAN, "-p", "tallystick.testing.plugin", "-x", "-q")
    assert done.ret == code, "\n".join(done.outlines[-20:])
