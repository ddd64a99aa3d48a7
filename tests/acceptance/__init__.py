"""Acceptance: black boxes, driven by command line and HTTP alone (10, section 8)."""
