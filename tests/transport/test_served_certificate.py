"""A certificate that follows its files, with real handshakes of each kind of server that a process has."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
import uvicorn
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from tests.support.promises import until

from postern.api.control.control_server import certificate_credentials
from postern.errors import Misconfigured
from postern.transport import certificates
from postern.transport.certificates import TlsFiles
from postern.transport.served_certificate import HostCertificate, ServedCertificate

Serve = Callable[[ServedCertificate, AsyncExitStack], Awaitable[int]]


def replace(files: TlsFiles, *, days: int = 100, key_type: str = "ec") -> bytes:
    """Put a new certificate and key in place; return the certificate as DER."""
    if key_type == "ec":
        made = certificates.ensure(files.key.parent / "made" / str(days), ["localhost"], now=_start_for(days))
        files.key.write_bytes(made.key.read_bytes())
        files.certificate.write_bytes(made.certificate.read_bytes())
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rsa")]), datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=days))
        pem = serialization.Encoding.PEM
        files.certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
        plain = serialization.NoEncryption()
        files.key.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return ssl.PEM_cert_to_DER_cert(files.certificate.read_text())


def _start_for(days: int) -> datetime:
    return datetime.now(UTC) - certificates.SERVER_LIFE + timedelta(days=days + 1)


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    made = TlsFiles(tmp_path / "ca.crt", tmp_path / "server.crt", tmp_path / "server.key")
    replace(made)
    return made


async def serve_http(certificate: ServedCertificate, stack: AsyncExitStack) -> int:
    async def nothing(_scope: object, _receive: object, _send: object) -> None: ...

    factory = lambda *_: certificate.server_context()  # noqa: E731
    config = uvicorn.Config(
        nothing, host="127.0.0.1", port=0, lifespan="off", log_config=None, ssl_context_factory=factory
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)

    async def stop() -> None:
        server.should_exit = True
        await running

    stack.push_async_callback(stop)
    return int(server.servers[0].sockets[0].getsockname()[1])


async def serve_control(certificate: ServedCertificate, stack: AsyncExitStack) -> int:
    server = grpc.aio.server()
    credentials = certificate_credentials(lambda: (certificate.current.key, certificate.current.chain))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    stack.push_async_callback(server.stop, 0)
    return port


@asynccontextmanager
async def client(
    port: int, version: ssl.TLSVersion, name: str | None
) -> AsyncIterator[tuple[bytes, asyncio.StreamWriter]]:
    """Connect; return the certificate that the server presented."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name or "")
    try:
        yield writer.get_extra_info("ssl_object").getpeercert(binary_form=True), writer
    finally:
        writer.close()


async def presented(
    port: int, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, name: str | None = "localhost"
) -> bytes:
    async with client(port, version, name) as (certificate, _):
        return certificate


SERVERS: tuple[Serve, ...] = (serve_http, serve_control)


@pytest.mark.parametrize("key_type", ["ec", "rsa"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("serve", SERVERS, ids=lambda serve: serve.__name__)
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_new_handshakes_get_the_new_certificate_and_old_connections_stay(
    files: TlsFiles, run: Callable[..., None], serve: Serve, version: ssl.TLSVersion, key_type: str
) -> None:
    run(_check_new_handshakes(files, serve, version, key_type))


async def _check_new_handshakes(files: TlsFiles, serve: Serve, version: ssl.TLSVersion, key_type: str) -> None:
    old = ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
    certificate = ServedCertificate(lambda: files)
    async with AsyncExitStack() as stack:
        port = await serve(certificate, stack)
        async with client(port, version, "localhost") as (first, writer):
            assert first == old
            new = replace(files, days=200, key_type=key_type)
            assert await presented(port, version) == old  # until it is noticed
            certificate.check()
            for name in ("localhost", None):
                assert await presented(port, version, name) == new
            assert not writer.is_closing()
            writer.write(b"GET / HTTP/1.1\r\n")
            await writer.drain()


async def test_files_are_followed_and_a_wake_is_enough(files: TlsFiles) -> None:
    for look_every, wakes in ((0.02, False), (3600.0, True)):
        certificate = ServedCertificate(lambda: files, look_every=look_every)
        following = asyncio.create_task(certificate.follow())
        new = replace(files, days=150 if wakes else 120)
        if wakes:
            certificate.wake({})
        await until(lambda certificate=certificate, new=new: certificate.current.der == new)  # type: ignore[misc]
        following.cancel()


@pytest.mark.parametrize("trouble", ["no key", "other key", "nonsense", "empty", "expired", "encrypted"])
def test_pair_that_cannot_be_used_is_logged_once_and_the_old_one_stays(
    files: TlsFiles, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = ServedCertificate(lambda: files)
    before, key = certificate.current, files.key.read_bytes()
    match trouble:
        case "no key":
            files.key.unlink()
        case "other key":
            replace(files, days=50)
            files.key.write_bytes(key)
        case "nonsense":
            files.certificate.write_text("nonsense")
        case "empty":
            files.certificate.write_text("")
        case "expired":
            replace(files, days=-2)
        case "encrypted":
            secret = serialization.BestAvailableEncryption(b"x")
            loaded = serialization.load_pem_private_key(key, None)
            pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
            files.key.write_bytes(loaded.private_bytes(pem, form, secret))
    for _ in range(3):
        certificate.check()
    assert certificate.current is before
    [said] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert said.getMessage().startswith("the new certificate is not used, and the old one stays: the ")
    new = replace(files, days=300)
    certificate.check()
    assert certificate.current.der == new
    assert "-----BEGIN" not in caplog.text


def test_one_file_can_have_certificate_and_key(files: TlsFiles) -> None:
    alone = files.load()
    files.certificate.write_bytes(files.key.read_bytes() + files.certificate.read_bytes())
    together = TlsFiles(files.authority, files.certificate, files.certificate).load()
    assert (together.der, together.chain) == (alone.der, alone.chain)
    assert b"PRIVATE" not in together.chain


def test_files_that_are_only_touched_change_nothing(files: TlsFiles, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    certificate = ServedCertificate(lambda: files)
    before = certificate.current
    files.certificate.write_bytes(files.certificate.read_bytes())
    certificate.check()
    assert certificate.current is before
    assert not caplog.records


def test_other_files_are_followed(files: TlsFiles, tmp_path: Path) -> None:
    """The certificate of an ACME server takes the place of Postern's own when it is there."""
    (tmp_path / "other").mkdir()
    other = TlsFiles(tmp_path / "ca.crt", tmp_path / "other" / "server.crt", tmp_path / "other" / "server.key")
    certificate = ServedCertificate(lambda: other if other.certificate.exists() else files)
    new = replace(other, days=90)
    certificate.check()
    assert certificate.current.der == new


def test_certificate_that_cannot_be_used_at_the_start_is_an_error(files: TlsFiles) -> None:
    files.key.write_text("nonsense")
    with pytest.raises(Misconfigured, match=r"server\.crt with key .*server\.key cannot be used"):
        ServedCertificate(lambda: files)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_hosts_below_a_domain_get_their_own_certificate_which_follows_its_files(
    tmp_path: Path, files: TlsFiles, run: Callable[..., None], version: ssl.TLSVersion
) -> None:
    run(_check_hosts(tmp_path, files, version))


async def _check_hosts(tmp_path: Path, files: TlsFiles, version: ssl.TLSVersion) -> None:
    apps = certificates.ensure(tmp_path / "apps", ["*.apps.example.com"])
    hosts = HostCertificate("apps.example.com", ServedCertificate(lambda: apps))
    certificate = ServedCertificate(lambda: files, hosts=hosts)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=certificate.web_context())
    port = server.sockets[0].getsockname()[1]
    of_gateway, of_apps = certificate.current.der, hosts.served.current.der
    expected = {
        "wiki.apps.example.com": of_apps,
        "WIKI.Apps.Example.com": of_apps,
        "apps.example.com": of_gateway,
        "localhost": of_gateway,
        "wikiapps.example.com": of_gateway,
        None: of_gateway,
    }
    for name, der in expected.items():
        assert await presented(port, version, name) == der
    new = replace(apps, days=200)
    assert not certificate.check()  # that of the gateway is the same
    assert await presented(port, version, "wiki.apps.example.com") == new
    server.close()
