"""Documents that are larger than any value: as strict as all others."""

from __future__ import annotations

import pytest

from tallystick.errors import NotCanonical
from tallystick.values import canon, large

MANY = [bytes(1024 * 1024)] * 17


@pytest.mark.clause("K-12")
@pytest.mark.invariant("I13")
def test_a_large_document_is_read_as_strictly_as_any() -> None:
    """K-12: size is the one bound that is not asked for; a small one goes through the codec."""
    data = large.encode(MANY)
    assert len(data) > canon.SIZE_MAX
    assert large.decode(data) == MANY
    assert large.encode({"a": 1}) == canon.encode({"a": 1})
    for broken, code in ((data[3:], "cbor.prefix"), (data + b"\0", "cbor.trailing")):
        with pytest.raises(NotCanonical) as caught:
            large.decode(broken)
        assert caught.value.code == code
    with pytest.raises(NotCanonical):
        large.decode(data[:-1])
