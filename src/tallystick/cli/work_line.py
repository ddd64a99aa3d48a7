"""What a remote worker holds: where it works, the line to the node, the blobs of a job."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from tallystick.cli.problem import error_of
from tallystick.cli.request import Reply
from tallystick.errors import Unavailable
from tallystick.values import canon

CBOR: Final = "application/cbor"
WAIT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker works, as whom, and how much of it at a time."""

    url: str
    token: str
    name: str
    pools: tuple[str, ...]
    slots: int
    lease_ms: int


class Line:
    """The connection to the node: CBOR in, CBOR out, problems as errors."""

    def __init__(self, place: Place) -> None:
        headers = {"Authorization": f"Bearer {place.token}", "Accept": CBOR}
        timeout = httpx.Timeout(30.0, read=WAIT_MS / 1000 + 30.0)
        # As every command does it: no proxy and no password of the environment, and those
        # certificates that this machine trusts.
        tls = ssl.create_default_context() if place.url.startswith("https:") else True
        self._http = httpx.AsyncClient(
            base_url=place.url, headers=headers, timeout=timeout, verify=tls, trust_env=False
        )

    async def post(self, path: str, body: Any) -> Any:
        """One POST; None for an empty answer; raises what the node refused."""
        return _answer(await self._sent("POST", path, CBOR, canon.encode(body)))

    async def blob(self, world: str, hash_text: str) -> bytes | None:
        """A blob of the world, or None."""
        reply = await self._sent("GET", f"/v1/worlds/{world}/blobs/{hash_text}")
        if reply.status_code == 404:
            return None
        if reply.status_code >= 400:
            _answer(reply)
        return reply.content

    async def keep(self, world: str, body: bytes) -> None:
        """Put a blob where the receipt that names it will look for it."""
        path = f"/v1/worlds/{world}/blobs"
        _answer(await self._sent("PUT", path, "application/octet-stream", body))

    async def _sent(
        self, method: str, path: str, kind: str = "", body: bytes | None = None
    ) -> httpx.Response:
        """One request; a node that cannot be reached is `node.unreachable`."""
        headers = {"Content-Type": kind} if kind else {}
        try:
            return await self._http.request(method, path, content=body, headers=headers)
        except httpx.HTTPError as why:
            raise Unavailable(
                f"no node answers: {why or type(why).__name__}", code="node.unreachable"
            ) from why

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _answer(reply: httpx.Response) -> Any:
    if reply.status_code >= 400:
        raise error_of(Reply(reply.status_code, dict(reply.headers), reply.content))
    if not reply.content:
        return None
    kind = reply.headers.get("content-type", "")
    return canon.decode(reply.content) if kind.startswith(CBOR) else reply.json()


class Held:
    """The blobs of one job: those it reads were fetched before, those it puts go with the end."""

    def __init__(self, known: Mapping[str, bytes]) -> None:
        self._known = dict(known)
        self.new: dict[str, bytes] = {}

    def get(self, hash_text: str) -> bytes | None:
        """The bytes of a blob that the job's params name."""
        return self._known.get(hash_text)

    def put(self, body: bytes) -> str:
        """Keep bytes until the receipt is sent."""
        made = canon.hash_of(body)
        self._known[made] = self.new[made] = body
        return made


def hashes_in(value: Any) -> list[str]:
    """The text hashes in params, wherever they stand."""
    if isinstance(value, str):
        return [value] if value.startswith("sha256:") and len(value) == 71 else []
    if isinstance(value, Mapping):
        return [text for each in value.values() for text in hashes_in(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in hashes_in(each)]
    return []
