"""A client's startup phase at the gateway, over in-memory streams."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.memory_handshake import pair

from postern.errors import Denied, PosternError, ProtocolViolation, Unauthenticated
from postern.protocols.postgres.login.postgres_login import Cancel, PostgresStartup, greet
from postern.protocols.postgres.wire import postgres_messages as m

SSL = m.UINT32.pack(8) + m.UINT32.pack(m.SSL_REQUEST)
GSS = m.UINT32.pack(8) + m.UINT32.pack(m.GSSENC_REQUEST)


def opening(**parameters: str) -> bytes:
    return m.startup({"user": "ada", **parameters})


async def run_greeting(
    *data: bytes, tls: bool = True, require_tls: bool = False
) -> tuple[PostgresStartup | Cancel, bytes]:
    """Send the data piece by piece; return the result of `greet` and its answers."""
    ours, client = pair(tls=tls)
    answers = b""
    task = asyncio.create_task(greet(ours, require_tls=require_tls))
    for piece in data:
        client.write(piece)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        answers += client.take()
    client.close()
    result = await task
    return result, answers + client.take()


async def refused_greeting(*data: bytes, tls: bool = True, require_tls: bool = False) -> PosternError:
    with pytest.raises(PosternError) as caught:
        await run_greeting(*data, tls=tls, require_tls=require_tls)
    return caught.value


async def test_startup_without_tls_is_parsed() -> None:
    result, answers = await run_greeting(opening(database="shop", application_name="psql"))
    assert result == PostgresStartup("ada", "shop", {"application_name": "psql"}, m.PROTOCOL_3_0, False)
    assert answers == b""


async def test_startup_after_a_tls_request_is_encrypted() -> None:
    result, answers = await run_greeting(SSL, opening())
    assert isinstance(result, PostgresStartup)
    assert result.encrypted
    assert answers == b"S"


async def test_attack_085_gss_encryption_request_is_answered_before_and_after_tls() -> None:
    for first, second, expected in ((GSS, SSL, b"NS"), (GSS, b"", b"N")):
        result, answers = await run_greeting(*filter(None, (first, second)), opening())
        assert isinstance(result, PostgresStartup)
        assert answers == expected
    result, answers = await run_greeting(SSL, GSS, opening(), tls=False)
    assert isinstance(result, PostgresStartup)
    assert (result.encrypted, answers) == (False, b"NN")


async def test_tls_request_is_declined_if_tls_is_not_configured() -> None:
    result, answers = await run_greeting(SSL, opening(), tls=False)
    assert isinstance(result, PostgresStartup)
    assert (result.encrypted, answers) == (False, b"N")


async def test_startup_without_tls_is_denied_if_tls_is_required() -> None:
    assert isinstance(await refused_greeting(opening(), require_tls=True), Denied)
    assert isinstance(await refused_greeting(GSS, opening(), require_tls=True), Denied)
    result, _ = await run_greeting(SSL, opening(), require_tls=True)
    assert isinstance(result, PostgresStartup)


@pytest.mark.parametrize("data", [(GSS, GSS), (SSL, SSL), (SSL, GSS)], ids=["gss twice", "tls twice", "gss inside tls"])
async def test_repeated_encryption_request_is_a_protocol_violation(data: tuple[bytes, ...]) -> None:
    assert isinstance(await refused_greeting(*data, opening()), ProtocolViolation)


async def test_repeated_tls_request_after_it_was_declined_is_a_protocol_violation() -> None:
    assert isinstance(await refused_greeting(SSL, SSL, opening(), tls=False), ProtocolViolation)


async def test_attack_076_bytes_before_the_tls_handshake_are_a_protocol_violation() -> None:
    ours, client = pair()
    client.write(SSL + opening(user="eve"))
    with pytest.raises(ProtocolViolation, match="between the TLS request and the TLS handshake"):
        await greet(ours, require_tls=False)
    assert not ours.encrypted
    assert client.take() == b""


@pytest.mark.parametrize("size", [4, 32, 256])
async def test_cancel_request_of_both_protocol_versions_is_parsed(size: int) -> None:
    key = bytes(range(size % 256)) or bytes(256)
    result, answers = await run_greeting(m.cancel_request(7, key))
    assert result == Cancel(7, key)
    assert answers == b""
    under_tls, _ = await run_greeting(SSL, m.cancel_request(7, key))
    assert under_tls == Cancel(7, key)


@pytest.mark.parametrize("size", [0, 3, 257])
async def test_cancel_request_with_a_wrong_key_length_is_a_protocol_violation(size: int) -> None:
    assert isinstance(await refused_greeting(m.cancel_request(7, bytes(size))), ProtocolViolation)


@pytest.mark.parametrize("length", [0, 4, 7, 10_001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
async def test_attack_074_invalid_length_of_the_first_packet_is_a_protocol_violation(length: int) -> None:
    error = await refused_greeting(struct.pack("!I", length) + bytes(8))
    assert isinstance(error, ProtocolViolation)


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", b"\x16\x03\x01\x02\x00\x01\x00"]
)
async def test_first_packet_of_another_protocol_is_a_protocol_violation(garbage: bytes) -> None:
    assert isinstance(await refused_greeting(garbage), ProtocolViolation)


async def test_client_that_closes_during_startup_raises_a_connection_error() -> None:
    for data in (b"", b"\0\0", opening()[:-1], SSL + b""):
        with pytest.raises(ConnectionError):
            await run_greeting(data)


VERSIONS = {
    m.PROTOCOL_3_0: (m.PROTOCOL_3_0, b""),
    m.PROTOCOL_3_0 + 1: (m.PROTOCOL_3_0 + 1, b""),
    m.PROTOCOL_3_2: (m.PROTOCOL_3_2, b""),
    m.PROTOCOL_3_0 + 3: (m.PROTOCOL_3_2, m.negotiate_protocol_version(m.PROTOCOL_3_2, [])),
    m.PROTOCOL_3_0 + 9999: (m.PROTOCOL_3_2, m.negotiate_protocol_version(m.PROTOCOL_3_2, [])),
}


@pytest.mark.parametrize("asked", VERSIONS)
async def test_protocol_version_is_negotiated_down_to_3_2(asked: int) -> None:
    result, answers = await run_greeting(m.startup({"user": "ada"}, asked))
    assert isinstance(result, PostgresStartup)
    assert (result.protocol, answers) == VERSIONS[asked]


async def test_unknown_protocol_options_are_reported_and_removed() -> None:
    result, answers = await run_greeting(opening(**{"_pq_.grease": "1", "_pq_.other": "2", "TimeZone": "UTC"}))
    assert isinstance(result, PostgresStartup)
    assert result.parameters == {"TimeZone": "UTC"}
    ((tag, body),) = pg.split(answers)
    assert tag == b"v"
    assert body == struct.pack("!II", m.PROTOCOL_3_0, 2) + b"_pq_.grease\0_pq_.other\0"


@pytest.mark.parametrize("version", [0, 2 << 16, 4 << 16, 1234 << 16])
async def test_unsupported_protocol_version_is_a_protocol_violation(version: int) -> None:
    assert isinstance(await refused_greeting(m.startup({"user": "ada"}, version)), ProtocolViolation)


@pytest.mark.parametrize("value", ["true", "on", "1", "yes", "database", "DATABASE", "t", "nonsense"])
async def test_replication_connection_is_denied(value: str) -> None:
    error = await refused_greeting(opening(replication=value))
    assert isinstance(error, Denied)
    assert "replication" in error.message


@pytest.mark.parametrize("value", ["false", "off", "0", "no", "OFF"])
async def test_disabled_replication_parameter_is_removed(value: str) -> None:
    result, _ = await run_greeting(opening(replication=value))
    assert isinstance(result, PostgresStartup)
    assert result.parameters == {}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"user\0ada",
        b"user\0ada\0",
        b"user\0\0ada\0\0",
        b"user\0ada\0\0rest\0",
        b"user\0ada\0user\0eve\0\0",
        b"user\0ada\0options\0\0\0\0",
        b"\0\0\0",
    ],
)
async def test_attack_072_malformed_startup_parameters_are_rejected(body: bytes) -> None:
    packet = struct.pack("!II", len(body) + 8, m.PROTOCOL_3_0) + body
    assert isinstance(await refused_greeting(packet), ProtocolViolation | Unauthenticated)


async def test_attack_072_startup_parameter_with_a_zero_byte_is_a_protocol_violation() -> None:
    with pytest.raises(ProtocolViolation, match="zero byte"):
        m.startup({"user": "app", "database": "shop\0user\0postgres"})


async def test_startup_without_a_valid_user_name_is_unauthenticated() -> None:
    assert isinstance(await refused_greeting(m.startup({"database": "shop"})), Unauthenticated)
    assert isinstance(await refused_greeting(m.startup({"user": ""})), Unauthenticated)
    assert isinstance(await refused_greeting(opening(user="ad\udce4")), Unauthenticated)


async def test_startup_parameters_that_are_not_utf8_keep_their_bytes() -> None:
    raw = b"user\0ada\0application_name\0caf\xe9\0\0"
    result, _ = await run_greeting(struct.pack("!II", len(raw) + 8, m.PROTOCOL_3_0) + raw)
    assert isinstance(result, PostgresStartup)
    assert m.startup({"user": "ada", **result.parameters})[8:] == raw


@given(st.binary(max_size=80), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_random_startup_bytes_raise_only_gateway_or_connection_errors(data: bytes, framed: bool) -> None:
    async def run() -> None:
        packet = struct.pack("!II", len(data) + 8, m.PROTOCOL_3_0) + data if framed else data
        with suppress(PosternError, ConnectionError):
            await run_greeting(packet)

    asyncio.run(run())
