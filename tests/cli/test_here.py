"""Without a running node a command opens the files itself: same answers, same lock."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tallystick.cli.here import HereClient
from tallystick.node.config import load_config
from tallystick.node.node import Node
from tests.cli.runs import Live, hello, tally

GREETER = "demo/greeter@1"


@pytest.mark.clause("K-45", "K-19")
def test_a_world_lives_in_a_folder_without_a_server(tmp_path: Path):
    """ND-28: create, send, show, root in processes that come and go; looking leaves no record."""
    data = ("--data", str(hello(tmp_path / "app") / ".tally"), "--json")
    made = tally("world", "create", "main", "--bundle", str(tmp_path / "app" / "app.py"), *data)
    assert made.code == 0, made.err
    assert tally("send", "demo/Greet@1", '{"name": "Ada"}', *data).code == 0
    before = tally("world", "root", *data).value
    shown = tally("cell", "show", GREETER, "Ada", *data).value
    after = tally("world", "root", *data).value
    assert shown["state"] == {"visits": 1}
    assert (before["seq"], before["root"]) == (after["seq"], after["root"])
    assert not list((tmp_path / "app" / ".tally" / "run").glob("node.json"))


@pytest.mark.parametrize(
    ("below", "data"), [(".tally", "."), (".tally", "../.tally"), (".tally/keys", "..")]
)
def test_a_data_folder_may_be_the_one_you_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str, data: str
):
    """04 section 9: `--data` is a folder by whatever path; nothing is made in its parent."""
    folder = hello(tmp_path / "app")
    words = ("world", "create", "main", "--bundle", str(folder / "app.py"))
    assert tally(*words, "--data", str(folder / ".tally")).code == 0
    monkeypatch.chdir(folder / below)
    found = tally("world", "ls", "--data", data, "--json")
    assert [row["name"] for row in found.value["items"]] == ["main"]
    monkeypatch.setenv("TALLY_NODE_DATA", data)
    assert tally("world", "ls", "--json").value == found.value
    assert not (folder / "tally.db").exists()


@pytest.mark.clause("X-07", "K-19")
def test_a_killed_node_goes_on_where_it_was(tmp_path: Path):
    """ND-01, in small: kill -9, then a command finds the files, then a new node: same root."""
    folder = hello(tmp_path / "app")
    node = Live(folder, "--bundle", "app.py")
    try:
        for _ in range(5):
            node.json("send", "demo/Greet@1", '{"name": "Ada"}')
        root = node.json("world", "root")["root"]
        assert node.end(signal.SIGKILL) == -signal.SIGKILL
        assert (node.data / "run" / "node.json").exists(), "nobody could take it away"
        assert tally("world", "root", "--data", str(node.data), "--json").value["root"] == root
    finally:
        node.close()
    again = Live(folder)
    try:
        assert again.json("cell", "show", GREETER, "Ada")["state"] == {"visits": 5}
        assert again.end() == 0
    finally:
        again.close()


def test_a_killed_node_is_not_taken_for_another_at_its_address(tmp_path: Path):
    """ND-01: what a killed node left names an address; who answers there may be of other files."""
    killed = Live(hello(tmp_path / "one"), "--bundle", "app.py")
    try:
        killed.json("send", "demo/Greet@1", '{"name": "Ada"}')
        port = int(json.loads((killed.data / "run" / "node.json").read_text())["url"].split(":")[2])
        assert killed.end(signal.SIGKILL) == -signal.SIGKILL
    finally:
        killed.close()
    other = Live(hello(tmp_path / "two"), "--bundle", "app.py", port=port)
    try:
        done = tally("cell", "show", GREETER, "Ada", "--data", str(killed.data), "--json")
        assert (done.code, done.value["state"]) == (0, {"visits": 1}), done.err
    finally:
        other.close()


def test_a_second_node_is_kept_out(tmp_path: Path):
    """ND-28: a folder has one node; the second ends with 3 and says whose the lock is."""
    node = Live(hello(tmp_path / "app"), "--bundle", "app.py")
    try:
        data = ("--data", str(node.data), "--json")
        done = tally("serve", *data, "--listen", "127.0.0.1:0")
        assert (done.code, done.problem["code"]) == (3, "node.locked")
    finally:
        node.close()


def test_dev_takes_up_a_change(tmp_path: Path):
    """05 section 1: a changed file is activated at quiescence and runs; a wrong one is told."""
    folder = hello(tmp_path / "app")
    node = Live(folder, "app.py", verb="dev")
    app = folder / "app.py"
    try:
        node.json("send", "demo/Greet@1", '{"name": "Ada"}')
        node.wait(lambda: f"Ticked             {GREETER} Ada" in node.log)
        app.write_text(
            app.read_text().replace("visits=guest.visits + 1", "visits=guest.visits + 5")
        )
        node.wait(lambda: "runs sha256:" in node.log)
        node.json("send", "demo/Greet@1", '{"name": "Ada"}')
        assert node.json("cell", "show", GREETER, "Ada")["state"] == {"visits": 6}
        sound = app.read_text()
        app.write_text(sound.replace("guest = state", "gest = state"))
        node.wait(lambda: "TL107 nothing defines guest (did you mean gest?)" in node.log)
        node.json("send", "demo/Greet@1", '{"name": "Ada"}')
        assert node.json("cell", "show", GREETER, "Ada")["state"] == {"visits": 11}
        app.write_text("import os\n")
        node.wait(lambda: "import of os" in node.log or "lane." in node.log)
        assert node.json("cell", "show", GREETER, "Ada")["state"] == {"visits": 11}
        assert node.end() == 0
    finally:
        node.close()


def test_serve_ends_when_nothing_is_left(tmp_path: Path):
    """ND-28: `--until-idle` stops by itself with 0 and says why."""
    folder = hello(tmp_path / "app")
    words = ("serve", "--data", str(folder / ".tally"), "--listen", "127.0.0.1:0")
    done = tally(*words, "--bundle", str(folder / "app.py"), "--until-idle", "--json")
    assert done.code == 0, done.err
    assert done.value["stopped"] == "idle"


@pytest.mark.clause("X-24")
def test_a_wide_key_stops_the_node(tmp_path: Path):
    """VA-18: a key file with mode 0644 stops the node with exit 2 and says how to fix it."""
    folder = hello(tmp_path / "app")
    data = ("--data", str(folder / ".tally"), "--json")
    assert tally("world", "ls", *data).code == 0
    (key,) = (folder / ".tally" / "keys").glob("*.key")
    key.chmod(0o644)
    done = tally("serve", *data, "--listen", "127.0.0.1:0")
    assert (done.code, done.problem["code"]) == (2, "key.mode")
    assert f"chmod 600 {key}" in done.problem["hint"]


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "nonsense"])
def test_an_open_or_bad_address_is_refused(tmp_path: Path, listen: str):
    """04 section 11: another address than loopback needs TLS or --insecure."""
    done = tally("serve", "--data", str(tmp_path / ".tally"), "--listen", listen, "--json")
    assert done.code == 2
    assert done.problem["code"].startswith("http.")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_a_node_that_listens_everywhere_is_reached_from_here(tmp_path: Path, listen: str):
    """04 section 11: the note names an address that the node answers under, not a wildcard."""
    folder = hello(tmp_path / "app")
    node = Live(folder, "--bundle", "app.py", "--insecure", listen=listen)
    try:
        assert [row["name"] for row in node.json("world", "ls")["items"]] == ["main"]
        assert node.json("token", "create", "ada", "--ui")["login"]["url"].startswith("http://")
        assert "0.0.0.0" not in node.log
        assert "[::]" not in node.log
    finally:
        node.close()


def test_keys_are_listed_where_no_world_is(tmp_path: Path):
    """04 section 4: a worker's folder has keys and no journal; to list them makes none."""
    data = tmp_path / ".tally"
    made = tally("key", "new", "--data", str(data), "--json").value
    found = tally("key", "ls", "--data", str(data), "--json")
    assert found.code == 0, found.err
    assert [row["key"] for row in found.value["items"]] == [made["key"]]
    assert found.value["trusted"] == []
    assert [path.name for path in data.iterdir()] == ["keys"]


def test_init_overwrites_nothing(tmp_path: Path):
    """ND-28: a second init is refused before anything is written."""
    hello(tmp_path / "app")
    (tmp_path / "app" / "app.py").write_text("mine")
    done = tally("init", str(tmp_path / "app"), "--template", "orders", "--json")
    assert (done.code, done.problem["code"]) == (2, "init.exists")
    assert (tmp_path / "app" / "app.py").read_text() == "mine"
    assert not (tmp_path / "app" / "bank.py").exists()


@pytest.mark.clause("K-29", "X-24")
@pytest.mark.parametrize("name", ["hello", "orders"])
def test_every_template_passes_the_check(tmp_path: Path, name: str):
    """ND-28: what `init` writes is without findings; the grant of `orders` names the bank alone."""
    assert tally("init", str(tmp_path / "app"), "--template", name).code == 0
    app = str(tmp_path / "app" / "app.py")
    words = ("bundle", "check", app, "--authority", "structural", "--strict", "--canonical")
    done = tally(*words, "--json")
    assert done.code == 0, done.out
    if name == "orders":
        manifest = done.value["canonical"][-1]
        assert manifest["module_bindings"]["shop/orders@1"]["slots"]["http.out"] == "bank"
        (bank,) = (row for row in manifest["authority"]["grants"] if row["name"] == "bank")
        assert bank["params"]["cidrs"] == ["127.0.0.1/32"]


def test_a_node_of_a_command_goes_on_while_the_command_waits(tmp_path: Path):
    """PB-27: what was begun ends during a pause, without anything being asked."""
    client = HereClient(load_config(tmp_path, {}), passive=True)
    ended: list[str] = []

    async def begin(_node: Node) -> asyncio.Task[None]:
        async def work() -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            ended.append("done")

        return asyncio.create_task(work())

    try:
        task = client.run(begin)
        assert not ended
        client.pause(0.01)
        assert task.done()
        assert ended == ["done"]
    finally:
        client.close()
