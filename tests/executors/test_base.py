"""The protocol of executors: what its values say and keep to themselves."""

from __future__ import annotations

from tallystick.executors.base import ERROR_KINDS, pointer
from tests.executors.jobs import job, literal, secret


def test_a_job_does_not_show_its_secrets() -> None:
    """06 section 5: a job may be logged, so its text holds neither params nor secrets."""
    made = job("sys/http.request@1", {"url": "canary"}, secrets={"/headers/a": "canary-value"})
    assert repr(made) == "Job(sys/http.request@1, intent 0101010101010101, attempt 1)"


def test_a_job_reads_literals_and_secrets_alike() -> None:
    """06 section 5: an executor sees plain text where the schema allows a reference."""
    headers = {"a/b": secret("x"), "c": literal("plain")}
    made = job("e/e@1", {"headers": headers, "none": None}, secrets={"/headers/a~1b": "value-x"})
    assert made.plain("headers", "a/b") == "value-x"
    assert made.plain("headers", "c") == "plain"
    assert made.plain("headers", "d") is None
    assert made.plain("none", "d") is None
    assert pointer("a~/") == "/a~0~1"


def test_the_kinds_of_errors_are_those_of_the_design() -> None:
    """04 section 5: the closed list of kinds."""
    told = """connection timeout rate_limit auth not_found client_error server_error schema limit
    scope conflict crash no_outcome outcome_unknown cancelled"""
    assert frozenset(told.split()) == ERROR_KINDS
