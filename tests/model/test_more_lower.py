"""Older documents beside a manifest that is broken elsewhere."""

from __future__ import annotations

from tallystick.model.manifest_sources import read_sources
from tests.model.test_lower import FLOW, manifest, old_module


def test_a_broken_section_is_left_to_its_own_check():
    """MO-02: lowering adds nothing to a section that is no list; the check says what it is."""
    found = read_sources([old_module(), manifest(modules=[FLOW], workflows="all of them")]).findings
    errors = [finding for finding in found if not finding.warning]
    assert [(each.code, each.path) for each in errors] == [("def.bad_value", "/workflows")]
