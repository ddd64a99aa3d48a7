"""Secrets: from a reference in params to a plain value, only here and only after dispatch.

Theory of operation.
A reference stands where the schema says `sys/TextOrSecretRef@1`; a map of the same look elsewhere
is data and stays data.
Its alias and version name a `defsecret` of the world, which names a binding of the node:
`env:NAME` (a variable), `file:NAME` (a file of mode 0600 in `secrets/`), `store:NAME` (the vault).
A binding is a plain name, never a path: a bundle must not be able to read the node's disk.
The grant of the intent must be in `allowed_caps`, and a value must fit `expected_digest` when there
is one; a refusal comes before anything outside is touched.
Kernel, authority, governance and views cannot import this room.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import resource
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected, TallyError, UnknownName
from tallystick.executors.base import Failed
from tallystick.executors.vault import Vault, check_name, check_value, read_private
from tallystick.values.schema.references import Reference

_SCRYPT: Final = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}


class SecretRequest(NamedTuple):
    """What a job asks for: its references, the world's `defsecret`s, and its grant's name."""

    references: tuple[Reference, ...]
    definitions: Mapping[str, Mapping[str, Any]]
    grant: str | None


class Bindings:
    """The values this node has: its environment, its `secrets/` folder and its vault."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder / "secrets"
        self._environ = environ
        self._fitting: set[tuple[str, bytes]] = set()
        self.vault = Vault(folder, environ)

    def value(self, binding: str) -> str:
        """The value of a binding; refuses an unknown one, and a value too short to be scrubbed."""
        source, _, name = binding.partition(":")
        read = self._sources().get(source)
        if read is None:
            raise Rejected(
                f"{binding!r} is no binding",
                code="secret.binding",
                where={"binding": binding},
                hint="a binding is env:NAME, file:NAME or store:NAME",
            )
        check_name(name)
        value = read(name)
        check_value(name, value)
        return value

    def resolve(self, request: SecretRequest) -> dict[str, str] | Failed:
        """The plain value by path for every reference, or the failure that settles the job.

        Checking a digest takes tens of milliseconds once for each value, so call it off the loop.
        """
        try:
            return {path: self._one(name, request) for path, name in request.references}
        except TallyError as why:
            return Failed("auth", why.code, why.message)

    def _one(self, name: str, request: SecretRequest) -> str:
        definition = request.definitions.get(name)
        if definition is None:
            raise UnknownName(f"no defsecret {name}", code="secret.unknown", where={"name": name})
        allowed = definition.get("allowed_caps") or ()
        if request.grant not in allowed:
            raise Rejected(
                f"{name} may not be used under the grant {request.grant}",
                code="secret.not_allowed",
                where={"name": name, "grant": request.grant},
                hint="name the grant in allowed_caps of the defsecret",
            )
        value = self.value(str(definition["binding_id"]))
        expected = definition.get("expected_digest")
        if expected is not None and not self._fits(value, str(expected)):
            raise Rejected(
                f"the value of {name} is not the one that the bundle expects",
                code="secret.digest_mismatch",
                where={"name": name},
                hint="bind the expected value, or correct expected_digest",
            )
        return value

    def _fits(self, value: str, expected: str) -> bool:
        mark = (expected, hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest())
        if mark not in self._fitting and fits_digest(value, expected):
            self._fitting.add(mark)
        return mark in self._fitting

    def _sources(self) -> Mapping[str, Callable[[str], str]]:
        return {"env": self._from_env, "file": self._from_file, "store": self.vault.get}

    def _from_env(self, name: str) -> str:
        found = self._environ.get(name)
        if found is None:
            raise UnknownName(
                f"the environment has no {name}",
                code="secret.unbound",
                where={"name": name},
                hint=f"start the node with {name} set",
            )
        return found

    def _from_file(self, name: str) -> str:
        path = self._folder / name
        if not path.exists():
            raise UnknownName(
                f"there is no {path}",
                code="secret.unbound",
                where={"name": name},
                hint=f"write the value to {path}, mode 0600",
            )
        try:
            return read_private(path).decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as why:
            raise Rejected(
                f"{path} is not UTF-8 text", code="secret.file", where={"path": str(path)}
            ) from why


# ---- digests, dumps -------------------------------------------------------------------------


def digest_of(value: str, salt: bytes | None = None) -> str:
    """`scrypt:<salt>:<hash>` of a value, both in base64, for `expected_digest`."""
    salt = os.urandom(16) if salt is None else salt
    body = value.encode("utf-8", "surrogatepass")
    found = hashlib.scrypt(body, salt=salt, **_SCRYPT)
    return f"scrypt:{b64encode(salt).decode()}:{b64encode(found).decode()}"


def fits_digest(value: str, expected: str) -> bool:
    """True when the value has this digest; a digest that cannot be read fits nothing."""
    kind, _, rest = expected.partition(":")
    try:
        salt = b64decode(rest.partition(":")[0], validate=True)
    except ValueError:
        return False
    if kind != "scrypt" or not 8 <= len(salt) <= 64:
        return False
    return hmac.compare_digest(digest_of(value, salt), expected)


def forbid_core_dumps() -> None:
    """No core file of this process or its children, for good: memory holds plain secrets."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
