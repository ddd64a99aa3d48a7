"""Which executors there are: built in, brought by a package, or named by their object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.errors import TallyError
from tallystick.executors.base import ExecutorPorts
from tallystick.executors.catalogue import FACTORIES, WITHOUT_JOBS, brought, make_executor
from tallystick.model.sys_definitions import of_kind

PORTS = ExecutorPorts(Path(), None, lambda: 1_000)
CODE = """
class Payments:
    name = "payments"
    effects = frozenset({"com.acme/pay@1"})
    repeat = "keyed"

    def __init__(self, settings, ports):
        self.slots = settings.get("slots", 2)
        self.ports = ports

    async def perform(self, job, report): ...
    async def cancel(self, job): ...
    async def close(self): ...

class Idle(Payments):
    slots = 0
    def __init__(self, settings, ports): ...

class Wordless(Payments):
    repeat = "maybe"

class Nameless(Payments):
    name = ""

class Listed(Payments):
    effects = ["com.acme/pay@1"]

class Failing(Payments):
    def __init__(self, settings, ports):
        raise ValueError("no such till")

class Bare(Payments):
    def __init__(self): ...

class Strict(Payments):
    def __init__(self, settings, ports):
        from tallystick.errors import BadDefinition
        raise BadDefinition("a till has a number", code="config.value")

def nothing(settings, ports):
    return object()
"""
ENTRIES = """
[tallystick.executors]
payments = acme_tally_test:Payments
http = acme_tally_test:Payments
gone = acme_tally_test:Gone
twice = acme_tally_test:Payments
"""


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    """A package as an installer leaves it: a module, and a dist-info with its entry points."""
    (tmp_path / "acme_tally_test.py").write_text(CODE)
    (tmp_path / "acme_tally_torn.py").write_text("x = (")
    for number, entries in (
        (1, ENTRIES),
        (2, ENTRIES.replace("twice = acme_tally_test:Payments", "twice = acme_tally_test:Idle")),
    ):
        info = tmp_path / f"acme_tally_{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: acme-tally-{number}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(entries)
    sys.path.insert(0, str(tmp_path))
    try:
        yield
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("acme_tally_test", None)


def refused(name: str) -> str:
    """The code that a name is refused with."""
    with pytest.raises(TallyError) as caught:
        make_executor(name, {}, PORTS)
    return caught.value.code


def test_every_built_in_effect_has_its_executor(tmp_path: Path) -> None:
    """04 section 6: names and effects of the built-in ones are those of the catalogue."""
    ports = ExecutorPorts(tmp_path, None, lambda: 1_000)
    served: dict[str, str] = {}
    for name, factory in FACTORIES.items():
        made = factory({}, ports)
        assert made.name == name
        assert made.slots >= 1
        for effect in made.effects:
            assert served.setdefault(effect, name) == name
    assert set(served) <= set(of_kind("defeffect"))
    wanted = ("http.request", "blob.put", "blob.get", "llm.generate", "telemetry.emit")
    assert {f"sys/{name}@1" for name in wanted} <= set(served)
    assert not WITHOUT_JOBS & set(FACTORIES)


@pytest.mark.usefixtures("installed")
def test_a_package_brings_an_executor() -> None:
    """04 section 5: an entry point of the group is called with settings and ports."""
    made = make_executor("payments", {"slots": 5}, PORTS)
    assert (made.name, made.slots, made.repeat) == ("payments", 5, "keyed")
    assert made.effects == {"com.acme/pay@1"}
    assert brought()["payments"] == "acme_tally_test:Payments"


@pytest.mark.usefixtures("installed")
def test_a_built_in_name_is_not_taken_over() -> None:
    """04 section 5: installing a package cannot change who performs `http.request`."""
    assert type(make_executor("http", {}, PORTS)).__module__ == "tallystick.executors.http"
    assert "http" not in brought()


@pytest.mark.usefixtures("installed")
def test_an_object_may_be_named_itself() -> None:
    """04 section 5: `--executor module:Object`."""
    assert make_executor("acme_tally_test:Payments", {}, PORTS).name == "payments"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("unheard", "executor.unknown"),
        ("gone", "executor.broken"),
        ("twice", "executor.ambiguous"),
        ("acme_tally_test:Gone", "executor.broken"),
        ("acme_tally_none:Payments", "executor.broken"),
        (":Payments", "executor.broken"),
        ("acme_tally_test:", "executor.broken"),
        ("acme_tally_test:nothing", "executor.broken"),
        ("acme_tally_test:Idle", "executor.broken"),
        ("acme_tally_test:Wordless", "executor.broken"),
        ("acme_tally_test:Nameless", "executor.broken"),
        ("acme_tally_test:Listed", "executor.broken"),
        # Each of these ended a node or a worker with a trace of Python.
        ("acme_tally_test:Failing", "executor.broken"),
        ("acme_tally_test:Bare", "executor.broken"),
        ("acme_tally_test:Strict", "config.value"),
        ("acme_tally_torn:Payments", "executor.broken"),
        ("..acme_tally_test:Payments", "executor.broken"),
    ],
)
def test_what_is_no_executor_is_refused(name: str, code: str) -> None:
    """04 section 5: unknown, missing, doubled, or without a part of the protocol."""
    assert refused(name) == code


@pytest.mark.usefixtures("installed")
def test_an_executor_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    """04 section 5: whoever wrote it finds what it raised, and the line."""
    with pytest.raises(TallyError, match="no such till") as caught:
        make_executor("acme_tally_test:Failing", {}, PORTS)
    assert "ValueError" in caught.value.message
    assert "acme_tally_test.py:" in caught.value.message
