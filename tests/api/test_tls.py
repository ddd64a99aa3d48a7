"""TLS: an address that others reach, with a certificate."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from tallystick.api.app import make_app
from tallystick.api.serve import Listening, address_of
from tests.api.rig import bearer
from tests.node.rig import config, running

OPENSSL = shutil.which("openssl")


@pytest.mark.clause("X-24")
@pytest.mark.skipif(OPENSSL is None, reason="openssl makes the certificate of this test")
def test_tls_is_spoken_and_plain_text_is_not(tmp_path: Path) -> None:
    """04 section 11: with a certificate the node speaks TLS only, and its own origin is https."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command = [str(OPENSSL), "req", "-x509", *made, *names, "-out", str(cert), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    http = {"listen": "127.0.0.1:0", "tls_cert": str(cert), "tls_key": str(key)}

    async def main() -> None:
        async with running(config(tmp_path, http=http)) as node:
            address = address_of(node.config.http)
            listening = Listening(await make_app(node, scheme=address.scheme), address)
            await listening.start()
            try:
                await check(listening, cert)
            finally:
                await listening.stop()

    asyncio.run(main())


async def check(listening: Listening, cert: Path) -> None:
    """A caller that trusts the certificate is served; one that does not encrypt is not."""
    assert listening.url.startswith("https://127.0.0.1:")
    trusted = ssl.create_default_context(cafile=str(cert))
    headers = bearer(listening.api.local)
    async with httpx.AsyncClient(verify=trusted, trust_env=False, headers=headers) as client:
        assert (await client.get(f"{listening.url}/v1/worlds")).status_code == 200
        own = {"Origin": listening.url}
        assert (await client.get(f"{listening.url}/v1/worlds", headers=own)).status_code == 200
        plain = {"Origin": listening.url.replace("https", "http")}
        assert (await client.get(f"{listening.url}/v1/worlds", headers=plain)).status_code == 403
        with pytest.raises(httpx.TransportError):
            await client.get(listening.url.replace("https", "http"))
