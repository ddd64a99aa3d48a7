"""Signing keys on disk: who may read them, and what is refused (VA-18, 04 section 4)."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tallystick.errors import Rejected
from tallystick.node import keys


def refused(folder: Path) -> Rejected:
    with pytest.raises(Rejected) as caught:
        keys.node_key(folder)
    return caught.value


def test_a_key_is_made_once_and_kept(tmp_path: Path):
    """04 section 4: the first call makes the node's key, later ones find it; mode 0600 in 0700."""
    folder = tmp_path / "keys"
    made = keys.node_key(folder)
    assert keys.node_key(folder).pair.public == made.pair.public
    assert made.path.name == f"{made.pair.key_id}.key"
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert bytes.fromhex(made.public_text()) == made.pair.public


def test_other_keys_are_not_the_nodes(tmp_path: Path):
    """04 section 4: a worker's key lies beside it; `find_key` gives each by its id."""
    worker = keys.new_key(tmp_path / "keys")
    node = keys.node_key(tmp_path / "keys")
    assert worker.pair.key_id != node.pair.key_id
    assert len(keys.read_keys(tmp_path / "keys")) == 2
    assert keys.find_key(tmp_path / "keys", worker.pair.key_id).use == keys.WORKER
    with pytest.raises(Rejected) as caught:
        keys.find_key(tmp_path / "keys", "0" * 16)
    assert caught.value.code == "key.unknown"
    assert keys.read_keys(tmp_path / "none") == []


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int):
    """VA-18: wrong modes are refused with exit 2, and the hint says what to type."""
    path = keys.node_key(tmp_path / "keys").path
    path.chmod(mode)
    why = refused(tmp_path / "keys")
    assert (why.code, why.exit_code) == ("key.mode", 2)
    assert f"chmod 600 {path}" in why.hint
    path.chmod(0o600)
    (tmp_path / "keys").chmod(0o755)
    assert refused(tmp_path / "keys").code == "key.mode"


@pytest.mark.parametrize("text", ["", "{}", '{"use": "node", "seed": "00"}', "[1]"])
def test_a_damaged_key_is_refused(tmp_path: Path, text: str):
    """04 section 4: a file that is no key is named, not replaced by a new one."""
    keys.node_key(tmp_path / "keys").path.write_text(text)
    assert refused(tmp_path / "keys").code == "key.damaged"


def test_a_key_under_another_name_and_two_node_keys(tmp_path: Path):
    """04 section 4: the name is the key's id; two node keys leave open which one seals."""
    made = keys.node_key(tmp_path / "keys")
    made.path.rename(made.path.with_name("0" * 16 + ".key"))
    assert refused(tmp_path / "keys").code == "key.damaged"
    made.path.with_name("0" * 16 + ".key").rename(made.path)
    keys.new_key(tmp_path / "keys", keys.NODE)
    assert refused(tmp_path / "keys").code == "key.ambiguous"
