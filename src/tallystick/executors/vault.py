"""The vault: `vault.bin`, one sealed box with the values of `store:` secrets.

The box is a NaCl SecretBox over one canonical document, made anew at every change with a fresh
nonce, so the file shows neither names nor how many there are beyond its size.
The key is `TALLY_VAULT_KEY` (64 hex digits) or else `keys/vault.key`, mode 0600, made at the first
write.
The vault is no part of `tally.db` nor of a backup; who moves a node moves it by hand.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from tallystick.errors import Rejected, TooLarge, Unavailable, UnknownName
from tallystick.values import canon

KEY_VARIABLE: Final = "TALLY_VAULT_KEY"
VALUE_BYTES_MIN: Final = 6  # a shorter value would be scrubbed out of half of all texts
VALUE_BYTES_MAX: Final = 65_536
NAME_MAX: Final = 128
_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Vault:
    """The values of `store:` secrets, read from disk at every question."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._path = folder / "vault.bin"
        self._key_path = folder / "keys" / "vault.key"
        self._environ = environ

    def names(self) -> list[str]:
        """The names that have a value, sorted."""
        return sorted(self._read())

    def get(self, name: str) -> str:
        """The value of a name; `secret.unbound` when it has none."""
        found = self._read().get(name)
        if found is None:
            raise UnknownName(
                f"the vault holds no {name!r}",
                code="secret.unbound",
                where={"name": name},
                hint=f"set it: tally secret set {name}",
            )
        return found

    def set(self, name: str, value: str) -> None:
        """Keep a value, durably; refuses a name or a length that is out of bounds."""
        check_name(name)
        check_value(name, value)
        with self._locked():
            held = self._read()
            held[name] = value
            self._write(held)

    def remove(self, name: str) -> None:
        """Forget a value, durably; `secret.unbound` when there is none."""
        with self._locked():
            self.get(name)
            held = self._read()
            del held[name]
            self._write(held)

    def _read(self) -> dict[str, str]:
        if not self._path.exists():
            return {}
        key = self._key()
        if key is None:
            raise _locked_out(self._path, "its key is not there")
        try:
            held = canon.decode(SecretBox(key).decrypt(read_private(self._path)))
        except CryptoError as why:
            raise _locked_out(self._path, "the key does not open it, or it is damaged") from why
        return {str(name): str(value) for name, value in held.items()}

    def _write(self, held: Mapping[str, str]) -> None:
        key = self._key() or self._new_key()
        write_private(self._path, bytes(SecretBox(key).encrypt(canon.encode(dict(held)))))

    def _key(self) -> bytes | None:
        given = self._environ.get(KEY_VARIABLE)
        if given is None and not self._key_path.exists():
            return None
        text = (
            given if given is not None else read_private(self._key_path).decode("ascii", "replace")
        )
        try:
            key = bytes.fromhex(text.strip())
        except ValueError:
            key = b""
        if len(key) != SecretBox.KEY_SIZE:
            where = KEY_VARIABLE if given is not None else str(self._key_path)
            raise Rejected(
                f"{where} holds no key of 64 hex digits",
                code="vault.key",
                where={"key": where},
                hint="restore the key that the vault was made with",
            )
        return key

    def _new_key(self) -> bytes:
        key = os.urandom(SecretBox.KEY_SIZE)
        self._key_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._key_path, key.hex().encode("ascii") + b"\n")
        return key

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, by a lock on the folder itself."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def check_name(name: str) -> None:
    """Refuse a name that is not 1 to 128 of letters, digits, `.`, `_`, `-`, or starts with `.`."""
    if not 1 <= len(name) <= NAME_MAX or name[0] == "." or not _NAME.issuperset(name):
        raise Rejected(
            f"{name!r} is no name of a secret",
            code="secret.name",
            where={"name": name},
            hint="use letters, digits, dot, dash and underscore, and no dot in front",
        )


def check_value(name: str, value: str) -> None:
    """Refuse a value that is too short to be scrubbed, or too long."""
    size = len(value.encode("utf-8", "surrogatepass"))
    if size < VALUE_BYTES_MIN:
        raise Rejected(
            f"the value of {name!r} has fewer than {VALUE_BYTES_MIN} bytes",
            code="secret.too_short",
            where={"name": name},
            hint="use a longer value: a short one cannot be told from ordinary text",
        )
    if size > VALUE_BYTES_MAX:
        raise TooLarge(
            f"the value of {name!r} has more than {VALUE_BYTES_MAX} bytes",
            code="secret.too_long",
            where={"name": name},
            hint="a secret is a key, not a document",
        )


def read_private(path: Path) -> bytes:
    """The bytes of a regular file that only its owner may read; refuses every other one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as why:
        raise _not_private(path, f"it cannot be opened: {why.strerror}") from why
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise _not_private(path, "it is no regular file")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _not_private(path, f"its mode is {stat.S_IMODE(found.st_mode):04o}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def write_private(path: Path, body: bytes) -> None:
    """Replace a file, durably and at once, by one that only its owner may read."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _not_private(path: Path, why: str) -> Rejected:
    return Rejected(
        f"{path}: {why}",
        code="secret.file",
        where={"path": str(path)},
        hint=f"it must be a regular file of mode 0600: chmod 600 {path}",
    )


def _locked_out(path: Path, why: str) -> Unavailable:
    return Unavailable(
        f"{path}: {why}",
        code="vault.locked",
        where={"path": str(path)},
        hint=f"give the key it was made with, in keys/vault.key or {KEY_VARIABLE}",
    )
