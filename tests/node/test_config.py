"""Settings: what is read, what is refused, and what the refusal says (04 section 8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Rejected
from tallystick.node.config import SECTIONS, config_of, load_config
from tallystick.node.config_executors import EXECUTORS

NO_ENV: dict[str, str] = {}
FILE = """
[node]
drain_s = 1
data = "here"
[http]
listen = "127.0.0.1:1"
hosts = ["tally.test"]
[executors]
enabled = ["timer", "payments"]
routes = { payments = "pool:cards" }
[executors.payments]
url = "http://127.0.0.1:9"
[executors.http]
max_bytes = "1KiB"
"""


def refused(raw: dict[str, Any], env: dict[str, str] = NO_ENV) -> Rejected:
    with pytest.raises(Rejected) as caught:
        config_of(Path("/x"), raw, env)
    return caught.value


def test_a_folder_without_a_file_has_the_defaults(tmp_path: Path):
    """04 section 8: every default as the design writes it; paths start at the folder."""
    config = load_config(tmp_path, NO_ENV)
    assert config.data == tmp_path / ".tally"
    assert config.node.drain_s == 5
    assert config.node.resident_bytes_max == 256 * 2**20
    assert (config.journal.max_frames, config.journal.max_bytes) == (256, 2**20)
    assert config.ingress.queue == 10_000
    assert config.http.listen == "127.0.0.1:8255"
    assert config.retention.blob_grace == 24 * 3_600 * 10**9
    assert config.executors.of("http")["max_bytes"] == 16 * 2**20
    assert config.executors.of("file")["workspaces"] == {"project": "."}
    assert not {"shell", "python"} & set(config.executors.enabled)


def test_a_file_and_the_environment_over_it(tmp_path: Path):
    """04 section 8: the file wins over defaults, `TALLY_<SECTION>_<KEY>` over the file."""
    (tmp_path / "tally.toml").write_text(FILE)
    env = {
        "TALLY_NODE_DRAIN_S": "0.5",
        "TALLY_HTTP_LISTEN": "127.0.0.1:0",
        "TALLY_EXECUTORS_HTTP_SLOTS": "3",
        "TALLY_METRICS_OPEN": "true",
        "TALLY_VAULT_KEY": "not a setting",
    }
    config = load_config(tmp_path, env)
    assert (config.node.drain_s, config.data) == (0.5, tmp_path / "here")
    assert (config.http.listen, config.http.hosts) == ("127.0.0.1:0", ("tally.test",))
    assert config.executors.routes == {"payments": "pool:cards"}
    assert config.executors.of("payments") == {"url": "http://127.0.0.1:9"}
    assert (config.executors.of("http")["slots"], config.executors.of("http")["max_bytes"]) == (
        3,
        1024,
    )
    assert config.metrics.open is True


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ({"nodes": {}}, "node"),
        ({"node": {"drain": 5}}, "drain_s"),
        ({"journal": {"max_frame": 5}}, "max_frames"),
        ({"executors": {"htp": {}}}, "http"),
        ({"executors": {"http": {"slot": 1}}}, "slots"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(raw: dict[str, Any], meant: str):
    """04 section 8: no key is silently ignored, and the hint names what was meant."""
    why = refused(raw)
    assert why.code == "config.unknown_key"
    assert why.exit_code == 2
    assert why.hint == f"did you mean {meant}?"


def test_an_unknown_variable_of_a_section_is_refused():
    """04 section 8: a misspelt override is refused like a misspelt key."""
    assert refused({}, {"TALLY_NODE_DRAIN": "1"}).code == "config.unknown_key"
    assert refused({}, {"TALLY_EXECUTORS_HTTP_SLOT": "1"}).code == "config.unknown_key"
    assert refused({}, {"TALLY_EXECUTORS_ENABLE": "[]"}).code == "config.unknown_key"


@pytest.mark.parametrize(
    "raw",
    [
        {"node": 5},
        {"executors": {"http": 5}},
        {"node": {"drain_s": "5"}},
        {"node": {"drain_s": -1}},
        {"node": {"data": 1}},
        {"node": {"snapshot_every": True}},
        {"node": {"snapshot_every": 1.5}},
        {"http": {"max_body": "1MB"}},
        {"http": {"max_body": True}},
        {"http": {"hosts": "one"}},
        {"http": {"hosts": [1]}},
        {"metrics": {"open": 1}},
        {"retention": {"blob_grace": "1 day"}},
        {"executors": {"routes": ["x"]}},
        # Taken for `repeat`, it let an effect of unknown fate be performed again.
        {"executors": {"http": {"on_restart": "Fail"}}},
        {"executors": {"enabled": ["payments"], "payments": {"on_restart": "failed"}}},
    ],
)
def test_a_value_of_another_type_is_refused(raw: dict[str, Any]):
    """04 section 8: nothing is guessed; the refusal says which key."""
    why = refused(raw)
    assert (why.code, why.exit_code) == ("config.type", 2)
    assert why.where["key"]


def test_text_that_is_not_toml_is_refused(tmp_path: Path):
    """04 section 8: the file is named."""
    (tmp_path / "tally.toml").write_text("[node")
    with pytest.raises(Rejected) as caught:
        load_config(tmp_path, NO_ENV)
    assert caught.value.code == "config.syntax"
    assert caught.value.where["file"].endswith("tally.toml")


def test_every_setting_can_be_set_to_its_own_default():
    """04 section 8: each key of each section is read, so none is only decoration."""
    seen = 0
    for name, cls in [*SECTIONS.items(), *((f"executors.{n}", c) for n, c in EXECUTORS.items())]:
        plain = config_of(Path("/x"), {}, NO_ENV)
        for key in cls.__slots__:  # type: ignore[attr-defined]
            section, _, executor = name.partition(".")
            held = plain.executors.of(executor) if executor else getattr(plain, section)
            value = held[key] if executor else getattr(held, key)
            given: Any = dict(value) if isinstance(value, type(plain.executors.routes)) else value
            given = "24h" if key == "blob_grace" else given
            given = list(given) if isinstance(given, tuple) else given
            table = {section: {executor: {key: given}}} if executor else {section: {key: given}}
            again = config_of(Path("/x"), table, NO_ENV)
            assert again == plain
            seen += 1
    assert seen > 50
