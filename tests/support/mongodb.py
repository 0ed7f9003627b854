"""Servers of MongoDB's protocol for tests: SecantusDB from PyPI, as a process of its own that is never imported."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pymongo
import pymongo.errors
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.support.certificates import Issued
from tests.support.postgres import free_port

USER: Final = "app"
OLD: Final = "older"
PASSWORD: Final = "gr=ö,ße$/@:%"
_SECANTUS: Final = "secantusd-py"


def secantus() -> Path | None:
    """The program of the package, beside the interpreter that runs the tests."""
    program = Path(sys.executable).with_name(_SECANTUS)
    return program if program.exists() else None


@dataclass
class MongoServer:
    """`start()`, then `client()`; `stop()` ends the server and removes its data.

    With `auth`, there are the users `root` and USER, whose password is PASSWORD, in `admin`. A `standalone` server is
    no member of a replica set. With `certificate` it accepts only TLS; with `client_certificate` it demands
    certificates of that authority from clients, which `client()` has.

    With `test_commands` clients can make it fail.

    There is also the user OLD, who has SCRAM-SHA-1 only, and one of the `client_certificate`'s subject, `CN=app`.
    """

    auth: bool = True
    standalone: bool = False
    certificate: Issued | None = None
    client_certificate: Issued | None = None
    test_commands: bool = False
    port: int = 0
    _folder: Path | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self, timeout: float = 120.0) -> None:
        """`timeout` in seconds. Raises RuntimeError with the server's log when it does not come up."""
        self._folder = Path(tempfile.mkdtemp(prefix="postern-mongo-", dir="/tmp"))
        if self.certificate is not None:
            (self._folder / "certificate.pem").write_bytes(self.certificate.certificate)
            (self._folder / "key.pem").write_bytes(self.certificate.key)
        deadline = time.monotonic() + timeout
        if self.auth:
            # It has no localhost exception: users are created before it asks for a login.
            self._run([])
            self._wait_until_ready(deadline)
            with self._anonymous() as client:
                for name in ("root", USER):
                    client.admin.command("createUser", name, pwd=PASSWORD, roles=["root"])
                client.admin.command("createUser", OLD, pwd=PASSWORD, roles=["root"], mechanisms=["SCRAM-SHA-1"])
                roles = [{"role": "root", "db": "admin"}]
                client["$external"].command("createUser", "CN=app", roles=roles, mechanisms=["MONGODB-X509"])
            self._end()
        self._run([*(["--auth"] if self.auth else []), *self._tls_options()])
        self._wait_until_ready(deadline, **self._client_tls())

    def client(self, **options: Any) -> pymongo.MongoClient[dict[str, Any]]:
        """Return a client that is logged in as `root`, if there are users."""
        who = {"username": "root", "password": PASSWORD} if self.auth else {}
        return self._anonymous(**{**who, **self._client_tls(), **options})

    def stop(self) -> None:
        self._end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def _anonymous(self, **options: Any) -> pymongo.MongoClient[dict[str, Any]]:
        return pymongo.MongoClient("localhost", self.port, directConnection=True, **options)

    def _client_tls(self) -> dict[str, Any]:
        if self.certificate is None:
            return {}
        path = self.folder / "server-authority.pem"
        path.write_text(self.certificate.authority)
        options = {"tls": True, "tlsCAFile": str(path)}
        if self.client_certificate is not None:
            own = self.folder / "client.pem"
            own.write_bytes(self.client_certificate.certificate + self.client_certificate.key)
            options["tlsCertificateKeyFile"] = str(own)
        return options

    def _tls_options(self) -> list[str]:
        if self.certificate is None:
            return []
        options = [f"--tls-{name}-file={self.folder / file}" for name, file in _TLS_FILES.items()]
        if self.client_certificate is not None:
            authority = self.folder / "client-authority.pem"
            authority.write_text(self.client_certificate.authority)
            options += [f"--tls-ca-file={authority}", "--tls-require-client-cert"]
        return options

    def _run(self, options: list[str]) -> None:
        program = secantus()
        if program is None:
            raise RuntimeError("no MongoDB server found; install PyPI's SecantusDB")
        self.port = self.port or free_port()
        command = [
            *("setpriv", "--pdeathsig", "KILL", "--"),  # with the run of tests that started it, however that ends
            sys.executable,
            str(program),
            "--host=127.0.0.1",
            f"--port={self.port}",
            f"--storage-path={self.folder}/data",
            "--cache-size=64M",
            *(["--standalone"] if self.standalone else []),
            *(["--enable-test-commands"] if self.test_commands else []),
            *options,
        ]
        with (self.folder / "log").open("ab") as log:
            environment = {**os.environ, "HOME": str(self.folder)}  # where it looks for settings
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_until_ready(self, deadline: float, **options: Any) -> None:
        assert self._process is not None
        options["serverSelectionTimeoutMS"] = 500
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(pymongo.errors.PyMongoError), self._anonymous(**options) as client:
                client.admin.command("hello")
                return
            time.sleep(0.05)
        log = self.log
        self.stop()
        raise RuntimeError(f"SecantusDB did not start:\n{log}")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_TLS_FILES: Final = {"cert": "certificate.pem", "key": "key.pem"}


@contextlib.contextmanager
def running_mongodb(**settings: Any) -> Iterator[MongoServer]:
    """A missing package is an error under CI=true, else a visible skip. The arguments are those of MongoServer."""
    if secantus() is None and os.environ.get("CI") != "true":
        pytest.skip("SecantusDB is not installed")
    server = MongoServer(**settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def client_certificate(name: str) -> Issued:
    """A certificate of a client, whose subject is CN=`name`, by an authority that nobody else has."""
    now = datetime.now(UTC)

    def build(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )

    above, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = (
        build("authority", "authority", above)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(above, hashes.SHA256())
    )
    certificate = (
        build(name, "authority", own)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(above, hashes.SHA256())
    )
    return Issued(
        authority.public_bytes(Encoding.PEM).decode(),
        certificate.public_bytes(Encoding.PEM),
        own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def server_tls(issued: Issued, folder: Path, *, client_authority: str = "") -> ssl.SSLContext:
    """TLS as a server, with that certificate; with an authority (PEM), clients need certificates of it."""
    (folder / "certificate.pem").write_bytes(issued.certificate)
    (folder / "key.pem").write_bytes(issued.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    if client_authority:
        context.load_verify_locations(cadata=client_authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def mongosh() -> Path | None:
    """MongoDB's shell: an installed one, or the one that scripts/install-services gets from npm."""
    found = shutil.which("mongosh")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "postern-tools" / "mongosh" / "node_modules" / ".bin" / "mongosh"
    return Path(found) if found else program if program.exists() else None


async def run_mongosh(uri: str, script: str, folder: Path, *, typed: str = "") -> tuple[int, str]:
    """Run a script; return the exit code and all that was shown. `folder` takes the place of its home, `typed` is its
    input."""
    program = mongosh()
    assert program is not None
    environment = {**os.environ, "HOME": str(folder), "MONGOSH_DISABLE_TELEMETRY": "1"}
    process = await asyncio.create_subprocess_exec(
        str(program),
        "--quiet",
        uri,
        "--eval",
        script,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(typed.encode()), 240)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")
