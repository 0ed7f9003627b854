"""Logins of SQL Server's clients and at targets: all forms of encryption, what is passed on, and what is refused."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols import mssql_test_messages as ms

from postern.domain.secret import Secret
from postern.errors import Denied, PosternError, ProtocolViolation, Unauthenticated, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mssql.login import mssql_prelogin as pre
from postern.protocols.mssql.login.mssql_login import MssqlClientLogin, MssqlTargetGreeting, MssqlTargetLogin, connect
from postern.protocols.mssql.login.mssql_login7 import (
    MssqlClientOptions,
    MssqlStartup,
    clear_password,
    encode_login7,
    obfuscate_password,
    own_options,
    parse_login7,
)
from postern.protocols.mssql.mssql_listener import limit_to_framed_tls, offer_strict
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.relay.relay_handshake import StreamHandshake
from postern.services.identity.credentials import make_verifier
from postern.transport import certificates

OPTIONS = MssqlClientOptions(
    packet_size=8000,
    flags=(0xE0, 0x03, 0x20, 0x08),
    time_zone=-60,
    locale=0x0407,
    program_version=7,
    host="laptop",
    application="größe",
    library="ODBC",
    language="Deutsch",
    features=b"\x0a\x01\0\0\0\x01",
)
STARTUP = MssqlStartup("bob", Secret("pa$$word"), "shop", OPTIONS)
ANSWER = (
    k.encode_environment(k.ENV_DATABASE, k.encode_short_text("shop"), b"\0")
    + k.encode_login_ack(k.TDS_74, "Microsoft SQL Server", (16, 0, 1000))
    + k.encode_environment(k.ENV_PACKET_SIZE, k.encode_short_text("8000"), k.encode_short_text("4096"))
    + b"\xae\x0a\x01\0\0\0\x01\xff"
    + k.encode_done(0, True)
)


@pytest.mark.parametrize("version", [k.TDS_71, k.TDS_72, k.TDS_73, k.TDS_74])
def test_login_is_read_as_it_was_written(version: int) -> None:
    features = OPTIONS.features if version != k.TDS_71 else b""
    startup = replace(STARTUP, options=replace(OPTIONS, version=version, features=features))
    assert parse_login7(encode_login7(startup, "sql.example")) == startup


@given(st.binary(max_size=100))
def test_password_is_only_obfuscated(data: bytes) -> None:
    assert clear_password(obfuscate_password(data)) == data


def test_options_survive_the_way_to_the_agent() -> None:
    assert MssqlClientOptions.read(OPTIONS.texts()) == OPTIONS
    assert MssqlClientOptions.read(own_options("postern")).application == "postern"
    assert MssqlClientOptions.read({}) == MssqlClientOptions()


def _login(at: int = 0, value: bytes = b"", *, features: bytes = b"") -> bytes:
    data = encode_login7(replace(STARTUP, options=replace(OPTIONS, features=features or OPTIONS.features)), "x")
    return data[:at] + value + data[at + len(value) :]


REFUSED: dict[str, tuple[bytes, type[PosternError], str]] = {
    "Windows": (_login(25, b"\x83"), Denied, "Windows authentication"),
    "Entra": (_login(features=b"\x02\x01\0\0\0\x03"), Denied, "Entra"),
    "a new password": (_login(27, b"\x11"), Denied, "cannot be changed"),
    "big-endian": (_login(24, b"\xe1"), Denied, "little-endian"),
    "replication": (_login(25, b"\x33"), Denied, "replication"),
    "an old client": (_login(4, b"\0\0\0\x70"), Denied, "too old"),
    "another length": (_login() + b"x", ProtocolViolation, "length"),
    "no user": (encode_login7(replace(STARTUP, user=""), "x"), Unauthenticated, "no user name"),
    "a long user": (_login(42, b"\x81\0"), ProtocolViolation, "129 characters"),
    "a text behind the end": (_login(40, b"\xff\xff"), ProtocolViolation, "shorter"),
    "features without an end": (_login(features=b"\x0a\xff\xff\0\0\x01"), ProtocolViolation, "features"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_login_that_is_not_supported_is_refused_with_a_reason(name: str) -> None:
    data, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        parse_login7(data)


def test_features_that_change_what_is_read_are_not_passed_on() -> None:
    asked = b"".join([bytes((number, 1, 0, 0, 0, 1)) for number in (1, 4, 5, 8, 9, 10, 11, 13, 14, 99)])
    passed = b"".join([bytes((number, 1, 0, 0, 0, 1)) for number in (8, 10, 13, 14)])
    assert parse_login7(_login(features=asked)).options.features == passed


@given(st.binary(max_size=300))
def test_any_bytes_are_a_login_or_refused(data: bytes) -> None:
    with suppress(PosternError):
        parse_login7(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_prelogin_or_refused(data: bytes) -> None:
    try:
        options = pre.parse_prelogin(data)
        assert pre.parse_prelogin(pre.encode_prelogin(options)) == options
        pre.encryption_of(options)
    except ProtocolViolation:
        pass


# Over sockets

Serve = Callable[[StreamHandshake], Awaitable[object]]


@pytest.fixture(scope="module")
def files() -> Iterator[certificates.TlsFiles]:
    with tempfile.TemporaryDirectory() as folder:
        yield certificates.ensure(Path(folder), ("localhost", "127.0.0.1"))


@asynccontextmanager
async def _served(serve: Serve, context: ssl.SSLContext | None) -> AsyncIterator[tuple[int, asyncio.Future[Any]]]:
    """A listener for one connection, and what `serve` returns for it."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()

    async def run(stream: StreamHandshake) -> None:
        try:
            result.set_result(await serve(stream))
        except Exception as error:
            result.set_exception(error)
            stream.close()

    tasks: list[asyncio.Task[None]] = []

    class Accepted(StreamHandshake):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if not tasks:
                tasks.append(loop.create_task(run(self)))

    server = await loop.create_server(lambda: Accepted(context), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], result
    for task in tasks:
        task.cancel()
    if result.done():
        result.exception()


def _framed(files: certificates.TlsFiles) -> ssl.SSLContext:
    context = files.server_context()
    limit_to_framed_tls(context)
    return context


def _gate(files: certificates.TlsFiles, *, require_tls: bool = False, password: str = "pa$$word") -> Serve:
    def strict() -> ssl.SSLContext:
        context = files.server_context()
        offer_strict(context)
        return context

    async def serve(stream: StreamHandshake) -> tuple[MssqlClientLogin, MssqlStartup]:
        client = MssqlClientLogin(
            stream,
            framed=lambda wrap, read: stream.framed_tls_handshake(wrap, read, _framed(files)),
            strict=lambda: stream.start_tls(strict()),
        )
        try:
            startup = await client.greet(require_tls=require_tls)
            await client.authenticate(make_verifier(Secret(password)))
        except PosternError as error:
            client.turn_away(18456, error.message)
            raise
        client.welcome(ANSWER)
        stream.write(b"behind")
        return client, startup

    return serve


def _context(files: certificates.TlsFiles, *, verify: bool = True) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if verify:
        context.load_verify_locations(cafile=files.authority)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _dial(port: int, context: ssl.SSLContext | None, name: str = "localhost") -> StreamHandshake:
    stream = StreamHandshake(context, server_name=name)
    await asyncio.get_running_loop().create_connection(lambda: stream, "127.0.0.1", port)
    return stream


@pytest.mark.parametrize(
    ("sslmode", "require_tls", "encrypted"),
    [("verify-full", False, True), ("verify-full", True, True), ("disable", True, True), ("disable", False, False)],
)
async def test_encryption_is_agreed_on_and_what_follows_arrives(
    files: certificates.TlsFiles, sslmode: str, require_tls: bool, encrypted: bool
) -> None:
    async with _served(_gate(files, require_tls=require_tls), files.server_context()) as (port, result):
        stream = await _dial(port, _context(files))
        login = MssqlTargetLogin("bob", Secret("pa$$word"), "shop", sslmode, "sql.example", OPTIONS)
        greeting = await connect(stream, login)
        assert (greeting.packet_size, greeting.program, greeting.program_version) == (
            8000,
            "Microsoft SQL Server",
            (16, 0, 1000),
        )
        assert await stream.read(6) == b"behind"
        client, startup = await result
        assert startup == STARTUP
        assert client.encrypted == encrypted == stream.is_encrypted
        stream.close()


async def test_large_data_passes_encrypted_in_both_directions(files: certificates.TlsFiles) -> None:
    data = bytes(range(256)) * 8192

    async def serve(stream: StreamHandshake) -> bytes:
        await _gate(files)(stream)
        taken = await stream.read(len(data))
        stream.write(taken)
        return taken

    async with _served(serve, files.server_context()) as (port, result):
        stream = await _dial(port, _context(files))
        await connect(stream, MssqlTargetLogin("bob", Secret("pa$$word"), sslmode="verify-full"))
        assert await stream.read(6) == b"behind"
        stream.write(data)
        assert await stream.read(len(data)) == data
        assert await result == data
        stream.close()
        with pytest.raises(ConnectionError):
            await stream.read(1)


async def test_client_with_tds_8_begins_with_tls(files: certificates.TlsFiles) -> None:
    async with _served(_gate(files, require_tls=True), files.server_context()) as (port, result):
        context = _context(files)
        context.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
        context.set_alpn_protocols(["tds/8.0"])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        tls = writer.get_extra_info("ssl_object")
        assert (tls.version(), tls.selected_alpn_protocol()) == ("TLSv1.3", "tds/8.0")
        writer.write(p.packet(p.PRELOGIN, pre.encode_prelogin({pre.ENCRYPTION: b"\2"})))
        startup = replace(STARTUP, options=replace(OPTIONS, version=k.TDS_80))
        writer.write(p.message(p.LOGIN, encode_login7(startup, "x")))
        packets = p.TdsPackets()
        messages: list[p.TdsPacket] = []
        while len(messages) < 2:
            messages += packets.feed(await reader.read(4096))
        assert k.TDS_80.to_bytes(4, "big") in messages[1].payload
        client, read = await result
        assert (client.is_strict, client.encrypted, read.user) == (True, True, "bob")
        writer.close()


async def test_wrong_password_is_told_as_sql_server_does(files: certificates.TlsFiles) -> None:
    async with _served(_gate(files, password="other"), files.server_context()) as (port, result):
        stream = await _dial(port, _context(files))
        with pytest.raises(TargetRefused, match="password is wrong") as caught:
            await connect(stream, MssqlTargetLogin("bob", Secret("pa$$word"), sslmode="verify-full"))
        assert caught.value.refuses_login
        with pytest.raises(Unauthenticated):
            await result


async def test_client_without_tls_is_refused_where_tls_is_required(files: certificates.TlsFiles) -> None:
    async with _served(_gate(files, require_tls=True), files.server_context()) as (port, result):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(p.packet(p.PRELOGIN, pre.encode_prelogin({pre.ENCRYPTION: b"\2"})))
        (answer,) = p.TdsPackets().feed(await reader.read(4096))
        assert pre.encryption_of(pre.parse_prelogin(answer.payload)) == pre.REQUIRED
        with pytest.raises(Denied, match="TLS"):
            await result
        writer.close()


async def test_target_with_another_certificate_is_refused(files: certificates.TlsFiles) -> None:
    async with _served(_gate(files), files.server_context()) as (port, _):
        stream = await _dial(port, _context(files), "sql.example")
        with pytest.raises(Unavailable, match="Hostname mismatch"):
            await connect(stream, MssqlTargetLogin("bob", Secret("x"), sslmode="verify-full"))
        stream.close()


def _target(*answers: bytes) -> Serve:
    """A target that says this, in turn."""

    async def serve(stream: StreamHandshake) -> None:
        for answer in answers:
            head = await stream.read(p.HEAD)
            await stream.read(int(p.packet_size(head, 0)) - p.HEAD)
            stream.write(answer)

    return serve


def _prelogin(encryption: int) -> bytes:
    return p.packet(p.REPLY, pre.encode_prelogin({pre.ENCRYPTION: bytes((encryption,))}))


@pytest.mark.parametrize(
    ("sslmode", "encryption", "text"),
    [
        ("prefer", pre.NOT_SUPPORTED, "SSLMODE is prefer"),
        ("verify-full", pre.NOT_SUPPORTED, "offers no TLS"),
        ("require", pre.OFF, "logins only"),
    ],
)
async def test_password_is_never_sent_with_less_protection_than_asked(
    files: certificates.TlsFiles, sslmode: str, encryption: int, text: str
) -> None:
    async with _served(_target(_prelogin(encryption)), None) as (port, _):
        stream = await _dial(port, _context(files))
        with pytest.raises(Unavailable, match=text):
            await connect(stream, MssqlTargetLogin("bob", Secret("x"), sslmode=sslmode))
        stream.close()


async def _logged_in(*tokens: bytes) -> MssqlTargetGreeting:
    async with _served(_target(_prelogin(pre.NOT_SUPPORTED), ms.reply(*tokens)), None) as (port, _):
        stream = await _dial(port, None)
        try:
            return await connect(stream, MssqlTargetLogin("bob", Secret("x"), sslmode="disable"))
        finally:
            stream.close()


async def test_routing_is_followed_and_hidden_from_the_client() -> None:
    address = b"\0" + (1433).to_bytes(2, "little") + (3).to_bytes(2, "little") + ms.utf16("far")
    routing = k.encode_environment(k.ENV_ROUTING, len(address).to_bytes(2, "little") + address, b"\0\0")
    partner = k.encode_environment(k.ENV_PARTNER, k.encode_short_text("mirror"), b"\0")
    features = b"\xae\x0b\x01\0\0\0\x01\x0a\x01\0\0\0\x01\xff"
    ack = k.encode_login_ack(k.TDS_74, "Microsoft SQL Server\0\0", (16, 0, 1))
    greeting = await _logged_in(ack, routing, partner, features, ms.done())
    assert greeting.routed_to == ("far", 1433)
    assert greeting.program == "Microsoft SQL Server"
    assert greeting.tokens == ack + b"\xae\x0a\x01\0\0\0\x01\xff" + ms.done()


async def test_target_that_asks_for_windows_authentication_is_refused() -> None:
    with pytest.raises(Unavailable, match="SQL authentication"):
        await _logged_in(b"\xed\x01\0x")


async def test_login_of_sybase_is_refused_with_advice(files: certificates.TlsFiles) -> None:
    async with _served(_gate(files), files.server_context()) as (port, result):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x02\0\2\0\0\0\0\0" + bytes(504))
        with pytest.raises(ProtocolViolation, match=r"TDSVER=7\.4"):
            await result
        writer.close()
