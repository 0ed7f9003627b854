"""A whole gateway whose certificate comes from a real ACME server."""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.pebble import Pebble, running_pebble
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow  # builds the server from Go, once

HOST = "127.0.0.2"  # does not count as loopback
NAME = "gateway.example.test"


@pytest.fixture(scope="module")
def pebble() -> Iterator[Pebble]:
    with tempfile.TemporaryDirectory() as folder, running_pebble(Path(folder), address=HOST) as running:
        yield running


@pytest.fixture(scope="module")
def config(pebble: Pebble) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "postern.toml"
        file.write_text(
            f"""
            host = "{HOST}"
            [acme]
            directory = "{pebble.directory}"
            ca = "{pebble.authority}"
            domains = ["{NAME}"]
            accept_terms = true
            http_port = {pebble.http_port}
            """
        )
        yield file


@pytest.fixture(scope="module")
def gateway(config: Path) -> Iterator[Gateway]:
    with started("--config", str(config), again=True) as running:
        yield running


def names_at(gateway: Gateway, listener: str) -> str:
    """Return the certificate that a client is shown, as text that contains its names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    port = int(gateway.environment[f"POSTERN_{listener}_PORT"])
    with socket.create_connection((HOST, port), timeout=30) as plain, context.wrap_socket(plain) as stream:
        shown = stream.getpeercert(binary_form=True)
    assert shown is not None
    return shown.decode("latin-1")


def test_gateway_serves_its_own_certificate_until_the_one_of_the_server_is_there(
    gateway: Gateway, config: Path, pebble: Pebble
) -> None:
    for listener in ("API", "TUNNEL", "CONTROL"):
        wait_until(lambda listener=listener: NAME in names_at(gateway, listener), 60)  # type: ignore[misc]
    assert "the ACME server issued a certificate: for gateway.example.test" in gateway.log
    doctor = gateway.run("doctor", "--gateway", "--config", str(config), "--json")
    [certificate] = [one for one in json.loads(doctor.stdout) if one["check"] == "certificate"]
    assert certificate["state"] == "ok"
    with socket.socket() as probe:  # it listens only while it orders
        assert probe.connect_ex((HOST, pebble.http_port)) != 0
