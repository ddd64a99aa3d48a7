"""Grants that hold nonsense grant nothing: values of the wrong type, networks that are none."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.authority.addresses import reaches_loopback
from tallystick.authority.enforcers import builtin
from tallystick.authority.paths import covers_path, glob_covers
from tallystick.authority.urls import Url, covers_host, read_url


@pytest.mark.clause("K-29")
@pytest.mark.parametrize("odd", [None, 1, b"/v1", ["/v1"], True])
def test_what_is_no_text_covers_nothing(odd: Any):
    """AG-07: a prefix, glob or host of another type matches nothing, and raises nothing."""
    assert not covers_path(odd, "/v1")
    assert not covers_path("/v1", odd)
    assert not glob_covers(odd, "a/b")
    assert not covers_host(odd, "api.example")
    assert not covers_host("*.example", odd)


@pytest.mark.clause("K-29")
def test_a_network_that_is_none_reaches_nothing():
    """AG-07: nonsense in a list of networks is passed over; what stands behind it still counts."""
    assert not reaches_loopback(["nonsense", "10.0.0.0/8", "127.0.0.1/99"])
    assert reaches_loopback(["nonsense", "127.0.0.0/16"])
    assert reaches_loopback(["0.0.0.0/0"])


def test_every_url_has_a_path_that_begins_with_a_slash():
    """AG-07: host and query may meet without a slash; the path is then the root."""
    for text in ("https://api.example", "https://api.example?q=/x", "https://api.example/"):
        found = read_url(text)
        assert isinstance(found, Url)
        assert found.path == "/"


def test_the_plain_effect_capability_asks_for_nothing_more():
    """AG-02: `sys/effect` grants by being bound; its enforcer has no parameters to look at."""
    assert builtin("effect", {"cap_params": {}, "params": {"any": 1}}).ok
