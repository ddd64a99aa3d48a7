"""The protocol of executors: what its values say and keep to themselves."""

from __future__ import annotations

from tallystick.executors.base import ERROR_KINDS, Job
from tallystick.model.record_types import Origin


class NoBlobs:
    """A world without blobs."""

    def get(self, hash_text: str) -> bytes | None:
        return None

    def put(self, body: bytes) -> str:
        raise AssertionError("nothing is put here")


def test_a_job_does_not_show_its_secrets() -> None:
    """06 section 5: a job may be logged, so its text holds neither params nor secrets."""
    job = Job(
        world="w",
        intent=b"\x01" * 32,
        dispatch_key=b"\x02" * 32,
        effect="sys/http.request@1",
        executor="http.request",
        params={"url": "https://canary.example/"},
        grant=None,
        attempt=2,
        deadline_ns=None,
        origin=Origin("workflow", "com.acme/a@1", b"", b"k", 1, 0),
        secrets={"/headers/a": "canary-value"},
        blobs=NoBlobs(),
    )
    assert repr(job) == "Job(sys/http.request@1, intent 0101010101010101, attempt 2)"


def test_the_kinds_of_errors_are_those_of_the_design() -> None:
    """04 section 5: the closed list of kinds."""
    told = """connection timeout rate_limit auth not_found client_error server_error schema limit
    scope conflict crash no_outcome outcome_unknown cancelled"""
    assert frozenset(told.split()) == ERROR_KINDS
