"""Pebble, the ACME server that Let's Encrypt tests clients with, and a DNS server that knows every name."""

from __future__ import annotations

import json
import os
import shutil
import socket
import socketserver
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.certificates import issue
from tests.support.postgres import free_port
from tests.support.promises import wait_until

VERSION = "v2.10.3"
MODULE = f"github.com/letsencrypt/pebble/v2/cmd/pebble@{VERSION}"


@dataclass(frozen=True)
class Pebble:
    """`directory` is its URL, `authority` the file with the CA of its own address, `http_port` the port at which it
    looks for the answers to challenges."""

    directory: str
    authority: Path
    http_port: int
    log: Path


def program() -> Path:
    """Return Pebble, built once for each version. Skips the test without Go."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed; run: scripts/install-services go")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "postern-tests" / f"pebble-{VERSION}"
    built = base / "pebble"
    if not built.exists():
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=base) as draft:  # several processes can build it at once
            environment = {**os.environ, "GOBIN": draft, "GOFLAGS": "-mod=mod"}
            command = ["go", "install", MODULE]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            (Path(draft) / "pebble").replace(built)
    return built


@contextmanager
def running_pebble(folder: Path, *, address: str = "127.0.0.1") -> Iterator[Pebble]:
    """Every name has the `address`, where it looks for the answers to challenges."""
    binary, own = program(), issue("localhost", "127.0.0.1")
    (folder / "pebble.crt").write_bytes(own.certificate)
    (folder / "pebble.key").write_bytes(own.key)
    (folder / "pebble-ca.crt").write_text(own.authority)
    port, http_port = free_port(), free_port()
    config = {
        "pebble": {
            "listenAddress": f"127.0.0.1:{port}",
            "certificate": str(folder / "pebble.crt"),
            "privateKey": str(folder / "pebble.key"),
            "httpPort": http_port,
            "tlsPort": free_port(),
            "externalAccountBindingRequired": False,
        }
    }
    (folder / "pebble.json").write_text(json.dumps(config))
    log = folder / "pebble.log"
    with _dns(address) as dns, log.open("w") as output:
        process = subprocess.Popen(
            [binary, "-config", folder / "pebble.json", "-dnsserver", f"127.0.0.1:{dns}"],
            env={**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"},
            stdout=output,
            stderr=output,
        )
        try:
            wait_until(lambda: _listens(port), 60)
            yield Pebble(f"https://127.0.0.1:{port}/dir", folder / "pebble-ca.crt", http_port, log)
        finally:
            process.terminate()
            process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class _Dns(socketserver.StreamRequestHandler):
    """Answers each question for an IPv4 address with `address`, and others with nothing. Pebble asks by TCP."""

    address = b""

    def handle(self) -> None:
        while head := self.rfile.read(2):
            answer = _answer(self.rfile.read(struct.unpack("!H", head)[0]), self.address)
            self.wfile.write(struct.pack("!H", len(answer)) + answer)


@contextmanager
def _dns(address: str) -> Iterator[int]:
    handler = type("Handler", (_Dns,), {"address": socket.inet_aton(address)})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def _answer(question: bytes, address: bytes) -> bytes:
    end = question.index(b"\0", 12) + 5  # behind the name, its type and class
    kind = struct.unpack("!H", question[end - 4 : end - 2])[0]
    record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + address if kind == 1 else b""
    return question[:2] + struct.pack("!HHHHH", 0x8180, 1, bool(record), 0, 0) + question[12:end] + record
