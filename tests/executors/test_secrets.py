"""Secrets: by typed position, from the node's own bindings, under the grant that may use them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.executors.base import Failed
from tallystick.executors.secrets import (
    Bindings,
    SecretRequest,
    digest_of,
    fits_digest,
)
from tallystick.executors.vault import KEY_VARIABLE, Vault
from tallystick.model.sys_definitions import type_of
from tallystick.values.schema import Schema, compile_schema
from tallystick.values.schema.references import Reference, references
from tests.executors.jobs import literal, secret

VALUE = "canary-value-1"


def refused(act: Callable[[], object]) -> TallyError:
    """The error that an act ends with."""
    with pytest.raises(TallyError) as caught:
        act()
    return caught.value


# ---- the vault ------------------------------------------------------------------------------


def test_the_vault_keeps_values_and_shows_none(tmp_path: Path) -> None:
    """04 section 6: values come back in another process; the file shows neither name nor value."""
    Vault(tmp_path, {}).set("api", VALUE)
    Vault(tmp_path, {}).set("other.key-2", "é" * 3)
    vault = Vault(tmp_path, {})
    assert vault.names() == ["api", "other.key-2"]
    assert (vault.get("api"), vault.get("other.key-2")) == (VALUE, "ééé")
    body = (tmp_path / "vault.bin").read_bytes()
    assert VALUE.encode() not in body
    assert b"api" not in body
    for path in (tmp_path / "vault.bin", tmp_path / "keys" / "vault.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    vault.remove("api")
    assert refused(lambda: vault.get("api")).code == "secret.unbound"
    assert refused(lambda: vault.remove("api")).code == "secret.unbound"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["keys", "vault.bin"]


def test_the_same_values_give_other_bytes_each_time(tmp_path: Path) -> None:
    """04 section 6: a nonce is never used twice."""
    bodies = set()
    for _ in range(3):
        Vault(tmp_path, {}).set("api", VALUE)
        bodies.add((tmp_path / "vault.bin").read_bytes())
    assert len(bodies) == 3


def test_the_key_may_come_from_the_environment(tmp_path: Path) -> None:
    """04 section 6: TALLY_VAULT_KEY instead of a file; another key opens nothing."""
    key = {KEY_VARIABLE: os.urandom(32).hex()}
    Vault(tmp_path, key).set("api", VALUE)
    assert not (tmp_path / "keys").exists()
    assert Vault(tmp_path, key).get("api") == VALUE
    for wrong in ({}, {KEY_VARIABLE: "00" * 32}):
        assert refused(Vault(tmp_path, wrong).names).code == "vault.locked"
    for no_key in ("", "zz", "00" * 31):
        assert refused(Vault(tmp_path, {KEY_VARIABLE: no_key}).names).code == "vault.key"


def test_a_damaged_vault_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    """04 section 6: a changed byte is found, nothing is overwritten by the next set."""
    vault = Vault(tmp_path, {})
    vault.set("api", VALUE)
    body = bytearray((tmp_path / "vault.bin").read_bytes())
    body[-1] ^= 1
    (tmp_path / "vault.bin").write_bytes(body)
    assert refused(lambda: vault.get("api")).code == "vault.locked"
    assert refused(lambda: vault.set("b", VALUE)).code == "vault.locked"
    assert (tmp_path / "vault.bin").read_bytes() == body


@pytest.mark.parametrize("file", ["vault.bin", "keys/vault.key"])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, file: str) -> None:
    """06 section 5: 0600, or the node says so and stops."""
    vault = Vault(tmp_path, {})
    vault.set("api", VALUE)
    (tmp_path / file).chmod(0o640)
    assert refused(lambda: vault.get("api")).code == "secret.file"


@pytest.mark.parametrize("name", ["", ".a", "a/b", "a b", "ü", "x" * 129])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    """A name can become a file, so it is plain."""
    assert refused(lambda: Vault(tmp_path, {}).set(name, VALUE)).code == "secret.name"


def test_short_and_endless_values_are_refused(tmp_path: Path) -> None:
    """06 section 5: under 6 bytes a value cannot be scrubbed."""
    assert refused(lambda: Vault(tmp_path, {}).set("a", "12345")).code == "secret.too_short"
    assert refused(lambda: Vault(tmp_path, {}).set("a", "x" * 65_537)).code == "secret.too_long"


# ---- bindings -------------------------------------------------------------------------------


def node_with(folder: Path, **environ: str) -> Bindings:
    """The bindings of a node whose files hold one secret."""
    (folder / "secrets").mkdir()
    path = folder / "secrets" / "token"
    path.write_text(VALUE + "-file\n")
    path.chmod(0o600)
    bindings = Bindings(folder, environ)
    bindings.vault.set("api", VALUE + "-store")
    return bindings


def test_each_binding_has_its_source(tmp_path: Path) -> None:
    """06 section 5: env, file and store."""
    node = node_with(tmp_path, API=VALUE + "-env")
    assert [node.value(b) for b in ("env:API", "file:token", "store:api")] == [
        VALUE + "-env",
        VALUE + "-file",
        VALUE + "-store",
    ]


@pytest.mark.parametrize(
    ("binding", "code"),
    [
        ("env:NONE", "secret.unbound"),
        ("file:none", "secret.unbound"),
        ("store:none", "secret.unbound"),
        ("env:SHORT", "secret.too_short"),
        ("vault:api", "secret.binding"),
        ("plain", "secret.binding"),
        ("file:../vault.bin", "secret.name"),
        ("file:/etc/hostname", "secret.name"),
        ("file:link", "secret.file"),
        ("file:open", "secret.file"),
        ("file:folder", "secret.file"),
        ("file:binary", "secret.file"),
    ],
)
def test_bindings_that_are_refused(tmp_path: Path, binding: str, code: str) -> None:
    """06 section 5: no path, no link, no open mode, no folder, no short value."""
    node = node_with(tmp_path, SHORT="12345")
    folder = tmp_path / "secrets"
    (folder / "link").symlink_to(folder / "token")
    (folder / "folder").mkdir(mode=0o700)
    for name, body, mode in (("open", b"abcdefgh", 0o644), ("binary", b"\xff" * 9, 0o600)):
        (folder / name).write_bytes(body)
        (folder / name).chmod(mode)
    assert refused(lambda: node.value(binding)).code == code


# ---- references -----------------------------------------------------------------------------


def schema(name: str) -> Schema:
    """One of our own schemas, compiled."""
    return compile_schema(name, type_of(name), type_of)


def test_references_are_found_by_the_type_of_their_place() -> None:
    """06 section 5: in headers it is a reference; the same map in free JSON is data."""
    params = schema("sys/HttpRequestParams@1").admit(
        {
            "method": "GET",
            "url": "https://a.example/",
            "headers": {"b/c": {"secret": {"alias": "x/y", "version": 2}}, "d": {"literal": "e"}},
        }
    )
    found = references(params.schema.node, params.value)
    assert found == (Reference("/headers/b~1c", "x/y@2"),)
    llm = schema("sys/LlmGenerateParams@1").admit(
        {
            "provider": "local",
            "model": "m",
            "messages": [{"$tag": "secret", "$value": {"alias": "x/y", "version": 2}}],
            "max_tokens": 1,
            "api_key": {"secret": {"alias": "k", "version": 1}},
        }
    )
    assert references(llm.schema.node, llm.value) == (Reference("/api_key", "k@1"),)


def test_references_are_found_in_lists_and_arms() -> None:
    """06 section 5: any depth of a schema of one's own."""
    made = compile_schema(
        "a/B@1",
        {
            "record": {
                "l": {
                    "list": {"variant": {"s": {"ref": "sys/TextOrSecretRef@1"}, "n": {"nat": {}}}}
                },
                "o": {"option": {"ref": "sys/TextOrSecretRef@1"}},
            }
        },
        type_of,
    )
    value = {
        "l": [{"$tag": "n", "$value": 1}, {"$tag": "s", "$value": secret("k")}],
        "o": literal("x"),
    }
    assert references(made.node, value) == (Reference("/l/1/$value", "k@1"),)


def asked(grant: str | None, **definition: Any) -> SecretRequest:
    """A request for one secret under a grant."""
    whole = {"binding_id": "env:API", "allowed_caps": ["pay"], **definition}
    return SecretRequest((Reference("/headers/a", "x@1"),), {"x@1": whole}, grant)


@pytest.mark.clause("K-04")
def test_a_reference_becomes_its_value(tmp_path: Path) -> None:
    """ND-19: the effect works: definition, grant, binding and digest agree."""
    node = Bindings(tmp_path, {"API": VALUE})
    request = asked("pay", expected_digest=digest_of(VALUE))
    assert node.resolve(request) == {"/headers/a": VALUE}
    assert node.resolve(request) == {"/headers/a": VALUE}


@pytest.mark.clause("K-04")
@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (asked("other"), "secret.not_allowed"),
        (asked(None), "secret.not_allowed"),
        (asked("pay", allowed_caps=[]), "secret.not_allowed"),
        (asked("pay", binding_id="env:NONE"), "secret.unbound"),
        (asked("pay", expected_digest=digest_of("another-value")), "secret.digest_mismatch"),
        (asked("pay", expected_digest="md5:abc"), "secret.digest_mismatch"),
        (asked("pay")._replace(definitions={}), "secret.unknown"),
    ],
)
def test_a_refusal_settles_before_any_contact(
    tmp_path: Path, request_: SecretRequest, code: str
) -> None:
    """06 section 5: another grant, an unbound name or a wrong value is an error with its code."""
    found = Bindings(tmp_path, {"API": VALUE}).resolve(request_)
    assert isinstance(found, Failed)
    assert (found.kind, found.code) == ("auth", code)
    assert VALUE not in found.message


def test_digests_tell_values_apart() -> None:
    """06 section 5: scrypt with a salt; what cannot be read fits nothing."""
    made = digest_of(VALUE)
    assert made != digest_of(VALUE)
    assert fits_digest(VALUE, made)
    for wrong in (made[:-4], "scrypt:", "scrypt:!!:x", "scrypt:YQ==:x", "", made + "x"):
        assert not fits_digest(VALUE, wrong)


def test_a_process_that_forbids_them_leaves_no_core(tmp_path: Path) -> None:
    """04 section 6: the limit is zero and cannot be raised again, also in children."""
    program = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
from tallystick.executors.secrets import forbid_core_dumps
forbid_core_dumps()
assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
import os
os.abort()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert done.returncode == -6
    assert list(tmp_path.iterdir()) == []
