"""The hot encoders write what the general codec writes."""

from __future__ import annotations

import pytest

from tallystick.model import hot
from tallystick.model.records import put_framed
from tests.rig import Rig
from tests.worlds import CREATED, FUNCTIONS, created, order_documents


@pytest.mark.clause("K-12")
def test_hot_encoders_equal_the_general_codec_on_a_real_journal() -> None:
    """VA-01 for records: every record of a mixed journal has one encoding, whoever writes it."""
    rig = Rig(order_documents(), FUNCTIONS)
    for i in range(5):
        rig.send(CREATED, created(f"o-{i}"), idem_key=b"k%d" % i if i % 2 else None)
    for i, job in enumerate(rig.jobs.all):
        rig.settle(job, {"ref": "r"} if i % 2 else {"nonsense": 1})
    found = rig.records()
    assert {type(r).__name__ for r in found} >= {
        "EventAdmitted",
        "Ticked",
        "IntentOpened",
        "ReceiptSettled",
    }
    for record in found:
        assert hot.put(record) == put_framed(record)
