"""What the index finds is what reading the whole journal finds, with a small part of it read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.journal.index import Index
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed
from tallystick.model.records import IntentOpened
from tallystick.node.nearby import (
    Stretch,
    cell_last_word,
    cell_timeline,
    effects_page,
    graph_around,
)
from tallystick.views.effects import EffectFilter, effect_history
from tallystick.views.graph import Focus, graph
from tallystick.views.journal import entries, touched
from tallystick.views.pages import Page
from tallystick.views.timeline import last_word, timeline
from tests.kernel import mixed
from tests.rig import WORLD, Rig


class Counting:
    """A reader that counts the frames it hands out."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.frames = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def read(self, *span: Any) -> Iterator[Sealed]:
        for frame in self._journal.read(*span):
            self.frames += 1
            yield frame


@pytest.fixture(scope="module")
def rig() -> Rig:
    made = mixed.mixed_rig()
    mixed.play(made)
    return made


@pytest.fixture
def stretch(rig: Rig, tmp_path: Path) -> Iterator[Stretch]:
    index = Index(tmp_path)
    upto = index.follow(rig.journal, WORLD)
    yield Stretch(index, Counting(rig.journal), WORLD, upto)
    index.close()


def cells_of(rig: Rig) -> list[CellId]:
    found: dict[CellId, None] = {}
    for entry in entries(rig.journal.read(WORLD)):
        found.update(dict.fromkeys(touched(entry.record)))
    return list(found)


@pytest.mark.clause("K-43", "X-23")
def test_a_graph_by_the_index_is_the_graph_of_the_whole_journal(rig: Rig, stretch: Stretch) -> None:
    """X-23: around every record and every cell, the same nodes and edges."""
    frames = list(rig.journal.read(WORLD))
    focuses = [Focus(seq=entry.seq) for entry in entries(frames)]
    focuses += [Focus(cell=cell) for cell in cells_of(rig)]
    assert len(focuses) > 50
    for focus in [*focuses, Focus()]:
        assert graph_around(stretch, focus) == graph(frames, focus), focus


@pytest.mark.clause("K-43", "X-22")
def test_a_timeline_by_the_index_is_that_of_the_whole_journal(rig: Rig, stretch: Stretch) -> None:
    """X-22: every cell of the journal, with times; and the last word about it."""
    frames = list(rig.journal.read(WORLD))
    for cell in cells_of(rig):
        whole = {**timeline(frames, cell), "as_of": stretch.upto}
        assert cell_timeline(stretch, cell) == whole
        assert cell_last_word(stretch, cell) == last_word(frames, cell)


@pytest.mark.clause("K-43", "K-45")
@pytest.mark.parametrize("limit", [3, 1000])
def test_effects_by_status_come_page_by_page(rig: Rig, stretch: Stretch, limit: int) -> None:
    """K-45: every status, by pages of any size, as the whole journal lists them."""
    frames = list(rig.journal.read(WORLD))
    seen: list[str] = []
    for status in (None, "ok", "error", "denied", "cancelled", "timeout", "open"):
        wanted = EffectFilter(status)
        whole = effect_history(frames, Page(1000), wanted, stretch.upto)["items"]
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next": None}
        while not found or page["next"] is not None:
            page = effects_page(stretch, Page(limit, page["next"]), wanted)
            found += page["items"]
            if not page["items"]:
                break
        assert found == whole
        seen += [status or "all"] if whole else []
    assert {"all", "ok", "denied"} <= set(seen)


def test_little_of_the_journal_is_read(rig: Rig, stretch: Stretch) -> None:
    """K-43: around one record only the frames are read that the answer needs."""
    counting: Any = stretch.reader
    all_frames = sum(1 for _ in rig.journal.read(WORLD))
    records = list(entries(rig.journal.read(WORLD)))
    opened = next(entry for entry in records if isinstance(entry.record, IntentOpened))
    origin = opened.record.origin
    cell_timeline(stretch, CellId(origin.workflow, origin.key))  # type: ignore[arg-type]
    effects_page(stretch, Page(1), EffectFilter())
    assert 0 < counting.frames < all_frames / 2


def test_digits_name_what_they_alone_begin(rig: Rig, stretch: Stretch) -> None:
    """K-45: an intent is found by its first digits; two that begin alike are both told."""
    records = list(entries(rig.journal.read(WORLD)))
    for entry in records:
        if isinstance(entry.record, IntentOpened):
            found = stretch.index.begins(WORLD, entry.record.intent.hex()[:12])
            assert found == [(entry.record.intent, entry.seq)]
    assert len(stretch.index.begins(WORLD, "")) == 2
    assert stretch.index.begins(WORLD, "0" * 64) == []
    with pytest.raises(TallyError):
        effects_page(stretch, Page(0), EffectFilter())
