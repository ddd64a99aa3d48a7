"""What a node keeps beside its worlds, over HTTP: blobs, tokens, backups."""

from __future__ import annotations

import asyncio
import stat
import time
from pathlib import Path

import pytest

from tallystick.journal.sqlite import SqliteJournal
from tallystick.values import canon
from tests.api.rig import bearer, serving
from tests.api.test_reads import W, filled, get
from tests.node.rig import Bank


def test_blobs_whole_and_in_ranges(tmp_path: Path) -> None:
    """04 section 10: bytes in, the hash out; ranges 206 and 416; other worlds do not see them."""
    # tidy: one story, told in its order.

    async def main() -> None:
        # tidy: one story, told in its order.
        async with serving(tmp_path, worlds=("main", "other")) as served:
            data = bytes(range(256)) * 8192
            kind = {"Content-Type": "application/octet-stream"}
            before = await served.root()
            put = await served.http.put(f"{W}/blobs", content=data, headers=kind)
            assert put.status_code == 201
            assert put.json() == {"hash": canon.hash_of(data), "size": len(data)}
            path = f"{W}/blobs/{canon.hash_of(data)}"
            assert (await served.http.get(path)).content == data
            ranges = [
                ("bytes=0-0", 206, data[:1]),
                ("bytes=10-19", 206, data[10:20]),
                ("bytes=-5", 206, data[-5:]),
                (f"bytes={len(data) - 2}-", 206, data[-2:]),
                (f"bytes={len(data)}-", 416, None),
                ("bytes=5-4", 416, None),
                ("bytes=0-1,3-4", 416, None),
                ("lines=1-2", 416, None),
                ("bytes=-", 416, None),
            ]
            for asked, status, wanted in ranges:
                got = await served.http.get(path, headers={"Range": asked})
                assert (asked, got.status_code) == (asked, status)
                if wanted is not None:
                    assert got.content == wanted
                else:
                    assert got.headers["content-range"] == f"bytes */{len(data)}"
            other = path.replace("main", "other")
            assert (await served.http.get(other)).status_code == 404
            assert (await served.http.get(f"{W}/blobs/sha256:zz")).status_code == 400
            assert await served.root() == before
        async with serving(tmp_path) as served:
            assert (await served.http.get(path)).content == data

    asyncio.run(main())


@pytest.mark.clause("X-24")
def test_a_token_does_not_outlive_its_maker(tmp_path: Path) -> None:
    """ND-20: an admin for an hour could make itself a token for ever."""
    hour_ns = time.time_ns() + 3_600_000_000_000

    async def main() -> None:
        async with serving(tmp_path) as served:
            short = bearer(await served.token("read", "admin", expires_ns=hour_ns))
            for given, kept in ((None, hour_ns), (hour_ns + 1, hour_ns), (hour_ns - 1, -1)):
                body = {"principal": "x", "scopes": ["read"], "expires_ns": given}
                made = await served.http.post("/v1/tokens", json=body, headers=short)
                assert made.json()["expires_ns"] == (kept if kept > 0 else given)

    asyncio.run(main())


@pytest.mark.clause("X-24")
def test_tokens_shrink_and_end(tmp_path: Path) -> None:
    """ND-20: a token gives no more than it has, is shown once, and ends when revoked."""
    # tidy: one story, told in its order.

    async def main() -> None:
        # tidy: one story, told in its order.
        async with serving(tmp_path) as served:
            small = await served.token("read", "admin")
            wider = {"principal": "x", "scopes": ["send"]}
            headers = bearer(small)
            got = await served.http.post("/v1/tokens", json=wider, headers=headers)
            assert (got.status_code, got.json()["code"]) == (403, "auth.missing_scope")
            odd = {"principal": "x", "scopes": ["root"]}
            assert (await served.http.post("/v1/tokens", json=odd)).json()["code"] == (
                "auth.unknown_scope"
            )
            keyed = await served.http.post(
                "/v1/tokens", json=wider, headers={"Idempotency-Key": "k"}
            )
            assert keyed.json()["code"] == "request.no_idempotency"
            assert (await served.http.get(W, headers=headers)).status_code == 200
            rows = (await get(served, "/v1/tokens"))["items"]
            assert len(rows) == 1
            assert small not in str(rows)
            gone = await served.http.delete(f"/v1/tokens/{rows[0]['id']}")
            assert gone.status_code == 200
            assert (await served.http.get(W, headers=headers)).status_code == 401
            kept = await served.token("read")
            token = served.node.folder / "run" / "token"
            assert stat.S_IMODE(token.stat().st_mode) == 0o600
            assert token.read_text("utf-8").strip() == served.api.local
        assert not token.exists()
        async with serving(tmp_path) as served:
            assert (await served.http.get(W, headers=headers)).status_code == 401
            assert (await served.http.get(W, headers=bearer(kept))).status_code == 200

    asyncio.run(main())


def test_a_backup_is_made_beside_service(tmp_path: Path) -> None:
    """ND-25's door: a backup names each world where it stood; its folder must be new."""

    async def main() -> None:
        async with serving(tmp_path / "node", Bank()) as served:
            await filled(served, 2)
            root = (await get(served, f"{W}/root"))["root"]
            body = {"dest": str(tmp_path / "copy")}
            made = await served.http.post("/v1/backup", json=body)
            assert made.status_code == 200, made.text
            (world,) = made.json()["worlds"]
            assert (world["name"], world["root"]) == ("main", root)
            assert (await served.http.post("/v1/backup", json=body)).status_code == 409
            odd = await served.http.post("/v1/backup", json={"dest": "../x"})
            assert odd.status_code == 422

    asyncio.run(main())


@pytest.mark.clause("K-43")
@pytest.mark.parametrize("size", [100, 2 << 20])
def test_a_damaged_blob_is_put_back_by_its_bytes(tmp_path: Path, size: int) -> None:
    """F4: what is kept is there when the hash comes back, also where damaged bytes have its name,
    in a row or in a file of its own.
    """

    async def main() -> None:
        async with serving(tmp_path, Bank()) as served:
            data = b"x" * size
            path = f"{W}/blobs/{canon.hash_of(data)}"
            kind = {"Content-Type": "application/octet-stream"}
            put = await served.http.put(f"{W}/blobs", content=data, headers=kind)
            assert put.status_code == 201
            world, digest = served.node.resolve("main"), canon.digest_of(data)
            await served.node.write(lambda journal: damaged(journal, world, digest))
            found = await served.http.get(path)
            assert found.json()["code"] == "journal.blob_damaged"
            assert "PUT W/blobs" in found.json()["hint"]
            put = await served.http.put(f"{W}/blobs", content=data, headers=kind)
            assert put.status_code == 201
            assert (await served.http.get(path)).content == data
            assert (await served.node.ops.verify(world))["ok"]

    asyncio.run(main())


def damaged(journal: SqliteJournal, world: str, digest: bytes) -> None:
    """Change the bytes of a blob below the journal."""
    file = journal.files.path(world, digest)
    if file.exists():
        file.write_bytes(b"y" * 10)
    else:
        journal._db.execute("UPDATE blob SET body=x'00' WHERE hash=?", (digest,))
        assert journal._db.changes() == 1
