"""The way in for a browser: told when there is a page to open, opened only where somebody is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.cli import serving as node_serving
from tests.api.rig import serving
from tests.cli.runs import hello, tally


@pytest.mark.parametrize("pages", [True, False])
def test_a_link_is_told_once_there_are_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: bool
) -> None:
    """09 section 2: the link holds a code that opens one session; without the UI there is none."""
    # tidy: one story, told in its order.
    opened: list[str] = []
    monkeypatch.setattr(node_serving.webbrowser, "open", opened.append)  # type: ignore[attr-defined]
    monkeypatch.setattr(node_serving, "files", lambda _package: tmp_path / "package")
    if pages:
        (tmp_path / "package" / "ui").mkdir(parents=True)
        (tmp_path / "package" / "ui" / "index.html").write_text("<!doctype html>")

    async def main() -> None:
        said: list[dict[str, Any]] = []
        async with serving(tmp_path / "node") as served:
            listening: Any = SimpleNamespace(api=served.api, url=served.url)
            told = node_serving.Serving(
                served.node.config,
                "main",
                lambda code, _text, **more: said.append(more),
                browse=True,
            )
            node_serving.welcome(listening, told)
            assert len(said) == pages
            if pages:
                place, _, code = said[0]["link"].partition("/login#")
                assert place == served.url
                began = await served.http.post("/v1/session", json={"code": code})
                assert (began.status_code, began.json()["principal"]) == (201, "local")
        assert opened == [], "nobody sits at a terminal here"

    asyncio.run(asyncio.wait_for(main(), 240))


def test_serve_takes_no_open(tmp_path: Path) -> None:
    """04 section 9: `serve --no-open --until-idle` ends with 0 when nothing is left to do."""
    folder = hello(tmp_path / "app")
    words = ("serve", "--bundle", str(folder / "app.py"), "--until-idle", "--no-open", "--json")
    done = tally(*words, "--data", str(folder / ".tally"), "--listen", "127.0.0.1:0")
    assert (done.code, done.value["stopped"]) == (0, "idle")
