"""A gateway with a configuration file and a certificate of its own, which is replaced while it runs: real handshakes at
each listener."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest
from cryptography import x509
from tests.support.certificates import issue
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

pytestmark = pytest.mark.ci

HOST = "127.0.0.2"  # does not count as loopback


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="postern-files-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    replace(folder)
    (folder / "token").write_text("a token for reading metrics\n")
    (folder / "postern.toml").write_text(
        f"""
        host = "{HOST}"
        log_file = "{folder}/postern.log"
        log_level = "info"
        metrics_token_file = "{folder}/token"
        idle_timeout = "2h"
        [tls]
        cert = "{folder}/server.crt"
        key = "{folder}/server.key"
        ca = "{folder}/ca.crt"
        """
    )
    with started("--config", str(folder / "postern.toml"), again=True) as made:
        yield made


def replace(folder: Path) -> bytes:
    """Put a new certificate in place; return it as DER."""
    made = issue("localhost", HOST)
    (folder / "server.key").write_bytes(made.key)
    (folder / "server.crt").write_bytes(made.certificate)
    (folder / "ca.crt").write_text(made.authority)
    return ssl.PEM_cert_to_DER_cert(made.certificate.decode())


def ask_postgres(stream: socket.socket) -> None:
    stream.sendall(struct.pack("!II", 8, 80877103))
    assert stream.recv(1) == b"S"


def ask_mysql(stream: socket.socket) -> None:
    assert stream.recv(4096)[4] == 10
    stream.sendall(struct.pack("<I", 32 | 1 << 24) + struct.pack("<IIB23x", 0x0000_8A00, 1 << 24, 45))


ASKED: dict[str, Callable[[socket.socket], None]] = {
    "API": lambda _: None,
    "TUNNEL": lambda _: None,
    "CONTROL": lambda _: None,
    "POSTGRES": ask_postgres,
    "MYSQL": ask_mysql,
}


def presented(gateway: Gateway, listener: str) -> bytes:
    """Return the certificate that a new client of the listener is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((HOST, int(gateway.environment[f"POSTERN_{listener}_PORT"])), timeout=30) as stream:
        ASKED[listener](stream)
        with context.wrap_socket(stream) as tls:
            shown = tls.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def all_present(gateway: Gateway, certificate: bytes) -> bool:
    return all(presented(gateway, listener) == certificate for listener in ASKED)


def uri(gateway: Gateway, folder: Path) -> str:
    """Return the URI of the demo, for a client that trusts the authority that is in place now."""
    return re.sub(r"sslrootcert=[^&\s]+", f"sslrootcert={folder}/ca.crt", shlex.split(gateway.told["psql"])[1])


def log_of(folder: Path) -> str:
    return (folder / "postern.log").read_text()


def test_hangup_makes_every_listener_present_the_new_certificate_and_sessions_stay(
    gateway: Gateway, folder: Path
) -> None:
    old = ssl.PEM_cert_to_DER_cert((folder / "server.crt").read_text())
    assert all_present(gateway, old)
    with psycopg.connect(uri(gateway, folder)) as session:
        new = replace(folder)
        assert gateway.process is not None
        gateway.process.send_signal(signal.SIGHUP)
        wait_until(lambda: all_present(gateway, new), 30)
        assert session.execute("select 1").fetchone() == (1,)
        with psycopg.connect(uri(gateway, folder), channel_binding="require") as another:  # bound to the new one
            assert another.execute("select 2").fetchone() == (2,)
        assert session.execute("select 3").fetchone() == (3,)


def test_pair_that_does_not_match_leaves_the_old_one_until_it_does(gateway: Gateway, folder: Path) -> None:
    old, key = presented(gateway, "API"), (folder / "server.key").read_bytes()
    (folder / "server.key").write_bytes(issue("localhost").key)
    wait_until(lambda: log_of(folder).count("the new certificate is not used, and the old one stays") == 2, 60)
    assert all_present(gateway, old)
    (folder / "server.key").write_bytes(key)
    new = replace(folder)
    wait_until(lambda: all_present(gateway, new), 60)  # without a signal


def test_metrics_and_doctor_know_when_the_served_certificate_expires(gateway: Gateway, folder: Path) -> None:
    end = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes()).not_valid_after_utc
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    token = (folder / "token").read_text().strip()
    url = f"https://{HOST}:{gateway.environment['POSTERN_API_PORT']}/api/metrics"
    page = httpx.get(url, headers={"Authorization": f"Bearer {token}"}, verify=context, timeout=30).text
    found = dict(re.findall(r'postern_certificate_expiry_timestamp_seconds\{process="(\w+)"\} (\S+)', page))
    assert {name: datetime.fromtimestamp(float(value), UTC) for name, value in found.items()} == {"api": end, "w1": end}
    doctor = gateway.run("doctor", "--gateway", "--config", str(folder / "postern.toml"), "--json")
    [certificate] = [one for one in json.loads(doctor.stdout) if one["check"] == "certificate"]
    assert certificate["what"] == f"valid until {end:%Y-%m-%d}"


def test_all_processes_write_the_log_file_and_children_have_the_settings_of_the_start(
    gateway: Gateway, folder: Path
) -> None:
    lines = log_of(folder).splitlines()
    assert {"supervisor", "prepare", "w1", "api"} <= {line.split()[2] for line in lines}
    assert gateway.log == ""  # standard error
    shown = gateway.run("config", "show", "--config", str(folder / "postern.toml"), "--json")
    rows = {row["name"]: row for row in json.loads(shown.stdout)}
    assert rows["idle_timeout"]["value"] == 7200
    assert rows["idle_timeout"]["source"] == {"kind": "file", "name": f"{folder}/postern.toml:6"}
    assert rows["home"]["source"] == {"kind": "environment", "name": "POSTERN_HOME"}
    assert rows["metrics_token"]["value"] == "***"
    assert "a token for" not in shown.stdout


def test_no_secret_is_in_the_arguments_of_a_process(gateway: Gateway) -> None:
    for name in ("worker", "api", "archiver"):
        for pid in gateway.processes(name):
            assert b"a token for" not in Path(f"/proc/{pid}/cmdline").read_bytes()
