"""Where a node listens: loopback, or with TLS, or by somebody's word."""

from __future__ import annotations

import pytest

from tallystick.api.serve import address_of
from tallystick.errors import Rejected
from tallystick.node.config import HttpSettings

LOOPBACK = ["127.0.0.1:8255", "localhost:0", "[::1]:80", "127.3.4.5:1"]
OPEN = ["0.0.0.0:8255", "[::]:8255", "192.168.1.4:80", "tally.example:443", "8.8.8.8:53"]
BAD = ["", "8255", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", ":80"]


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("listen", LOOPBACK)
def test_loopback_needs_nothing(listen: str) -> None:
    """04 section 11: an address of this machine alone is served plainly."""
    assert address_of(HttpSettings(listen=listen)).scheme == "http"


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("listen", OPEN)
def test_another_address_needs_tls_or_a_word(listen: str) -> None:
    """04 section 11: an address that others reach needs TLS or `--insecure`."""
    with pytest.raises(Rejected) as refused:
        address_of(HttpSettings(listen=listen))
    assert refused.value.code == "http.needs_tls"
    assert address_of(HttpSettings(listen=listen), insecure=True).tls is None


@pytest.mark.parametrize("listen", BAD)
def test_what_is_no_address_is_refused(listen: str) -> None:
    """04 section 8: host and port, both."""
    with pytest.raises(Rejected) as refused:
        address_of(HttpSettings(listen=listen))
    assert refused.value.code == "http.bad_address"


def test_a_certificate_that_cannot_be_used_is_refused() -> None:
    """04 section 11: TLS that was asked for is never silently left out."""
    with pytest.raises(Rejected) as refused:
        address_of(HttpSettings(listen="0.0.0.0:1", tls_cert="/nowhere.pem"))
    assert refused.value.code == "http.bad_certificate"
