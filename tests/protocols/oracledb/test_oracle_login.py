"""Both logins against each other: the gateway's own client at the gateway's own listener."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from tests.support.protocols.memory_handshake import MemoryHandshake

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import Denied, PosternError, ProtocolViolation, Unauthenticated, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.oracledb.login import oracle_auth as auth
from postern.protocols.oracledb.login import oracle_login as login
from postern.protocols.oracledb.login import tns_connects as connects
from postern.protocols.oracledb.login.oracle_auth import OracleClientExchange, OracleServerExchange, OracleVerifier
from postern.protocols.oracledb.oracle_listener import error_number
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_negotiation as n
from postern.protocols.oracledb.wire.tns_descriptors import refusal_descriptor
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader

PASSWORD = "correct-horse"
VERIFIER = OracleVerifier.make(PASSWORD)
ZONE = "ALTER SESSION SET TIME_ZONE='+02:00'"


def scram(password: str) -> Verifier:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return Verifier(4096, b"salt", hashlib.sha256(client_key).digest(), bytes(32))


@dataclass
class Listened:
    """What a listener did with one client."""

    startup: login.OracleStartup | None = None
    settings: login.OracleClientSettings | None = None
    error: PosternError | None = None


async def listen(stream: MemoryHandshake, *, require_tls: bool = False) -> Listened:
    """Serve one client, whose password must be PASSWORD."""
    result = Listened()
    served = login.OracleClientLogin(stream)
    try:
        result.startup = await served.greet(require_tls=require_tls)
        result.settings = await served.authenticate(scram(PASSWORD), VERIFIER)
        served.welcome({"AUTH_SESSION_ID": "7", "AUTH_VERSION_STRING": "- Test", "AUTH_SESSKEY": "private"})
    except PosternError as error:
        result.error = error
        served.turn_away(error_number(error), error.message)
    return result


def target(**changed: object) -> login.OracleTargetLogin:
    base = login.OracleTargetLogin("db", 1521, "SCOTT", Secret(PASSWORD), service="orders", alter_session=ZONE)
    return replace(base, **changed)  # type: ignore[arg-type]


class TlsClient(MemoryHandshake):
    """A client's end, whose TLS begins with the byte of a TLS record."""

    async def start_tls(self) -> None:
        self.write(b"\x16")
        await super().start_tls()


class TlsServer(MemoryHandshake):
    async def start_tls(self) -> None:
        assert await self.read(1) == b"\x16"
        await super().start_tls()


def handshake_pair(*, tls: bool = True) -> tuple[MemoryHandshake, MemoryHandshake]:
    near, far = TlsClient(), TlsServer(tls=tls)
    near.peer, far.peer = far, near
    return near, far


def meet(
    wanted: login.OracleTargetLogin, **options: bool
) -> tuple[Listened, login.OracleTargetGreeting | PosternError]:
    async def both() -> tuple[Listened, login.OracleTargetGreeting | PosternError]:
        near, far = handshake_pair()
        serving = asyncio.create_task(listen(far, **options))
        try:
            greeting: login.OracleTargetGreeting | PosternError = await login.connect(near, wanted)
        except PosternError as error:
            greeting = error
        return await asyncio.wait_for(serving, 10), greeting

    return asyncio.run(both())


@pytest.mark.parametrize("encrypted", [False, True])
def test_login(encrypted: bool) -> None:
    attributes = {"AUTH_PROGRAM_NM": "tool", "SESSION_CLIENT_DRIVER_NAME": "driver"}
    listened, greeting = meet(target(encrypted=encrypted, attributes=attributes), require_tls=encrypted)
    assert listened.error is None
    assert listened.startup is not None
    assert listened.settings is not None
    names = listened.startup.names
    assert (listened.startup.user, names.service, names.program) == ("SCOTT", "orders", "tool")
    assert listened.startup.encrypted is encrypted
    assert listened.settings.alter_session == ZONE
    assert listened.settings.attributes["SESSION_CLIENT_DRIVER_NAME"] == "driver"
    assert isinstance(greeting, login.OracleTargetGreeting)
    assert greeting.values == {"AUTH_SESSION_ID": "7", "AUTH_VERSION_STRING": "- Test"}
    assert greeting.layout == listened.startup.layout


REFUSED = {
    "a wrong password": (target(password=Secret("wrong")), {}, Unauthenticated, "28000"),
    "no TLS": (target(), {"require_tls": True}, Denied, "ORA-01031"),
    "a statement at login": (target(alter_session="ALTER SESSION SET EVENTS 'x'"), {}, Denied, "ORA-01031"),
    "two statements": (target(alter_session=ZONE + "; drop table t"), {}, Denied, "ORA-01031"),
    "no user": (target(user=""), {}, Unauthenticated, "28000"),
}


@pytest.mark.parametrize(("wanted", "options", "error", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_logins(
    wanted: login.OracleTargetLogin, options: Mapping[str, bool], error: type[PosternError], code: str
) -> None:
    listened, refused = meet(wanted, **options)
    assert isinstance(listened.error, error)
    assert isinstance(refused, TargetRefused)
    assert refused.code in (code, "ORA-01031", "ORA-12660")


def test_both_sides_of_the_exchange_agree() -> None:
    server = OracleServerExchange(VERIFIER)
    values = {name: value for name, value, _ in server.challenge()}
    client = OracleClientExchange(values, 0x4815, PASSWORD.encode())
    pairs = {name: value for name, value, _ in client.answer()}
    assert server.open_password(pairs["AUTH_SESSKEY"], pairs["AUTH_PASSWORD"]) == PASSWORD.encode()
    assert client.is_proved(server.proof())
    assert PASSWORD.encode() not in VERIFIER.dump()
    assert OracleVerifier.load(VERIFIER.dump()) == VERIFIER


@pytest.mark.parametrize("size", [32, 48])
def test_verifiers_of_11g_at_targets(size: int) -> None:
    """A target with the older verifier, with a session key of either size."""
    salt = bytes(range(10))
    key = hashlib.sha1(PASSWORD.encode() + salt).digest() + bytes(4)
    half = bytes(range(size))
    values = {
        "AUTH_VFR_DATA": salt.hex(),
        "AUTH_SESSKEY": auth._encrypt(key, half).hex(),
        "AUTH_PBKDF2_CSK_SALT": "00" * 16,
    }
    exchange = OracleClientExchange(values, 0x1B25, PASSWORD.encode())
    pairs = {name: value for name, value, _ in exchange.answer()}
    assert "AUTH_PBKDF2_SPEEDY_KEY" not in pairs
    assert len(auth._decrypt(key, bytes.fromhex(pairs["AUTH_SESSKEY"]))) == size


def test_decoys_are_the_same_for_each_call() -> None:
    decoy = OracleVerifier.decoy("nobody", b"secret")
    assert decoy == OracleVerifier.decoy("nobody", b"secret")
    assert decoy != OracleVerifier.decoy("somebody", b"secret")


def answering(*packets: bytes) -> PosternError:
    """The error of a login at a target that sends these packets."""

    async def run() -> PosternError:
        near, far = handshake_pair()
        for packet in packets:
            far.write(packet)
        try:
            await asyncio.wait_for(login.connect(near, target()), 10)
        except PosternError as error:
            return error
        raise AssertionError("the login did not fail")

    return asyncio.run(run())


ACCEPT = connects.accept(8192)
REDIRECT = b"(ADDRESS=(PROTOCOL=tcp)(HOST=db2)(PORT=1522))"
BAD_TARGETS = {
    "a refusal": ((connects.refuse(refusal_descriptor(12514)),), TargetRefused, "service name"),
    "a redirect": (
        (tns.packet(tns.REDIRECT, len(REDIRECT).to_bytes(2, "big") + REDIRECT, large=False),),
        login.OracleRedirect,
        "db2:1522",
    ),
    "a redirect in data": (
        (
            tns.packet(tns.REDIRECT, len(REDIRECT).to_bytes(2, "big"), large=False),
            tns.packet(tns.DATA, b"\0\x40" + REDIRECT, large=False),
        ),
        login.OracleRedirect,
        "db2:1522",
    ),
    "endless resends": ((tns.packet(tns.RESEND, b"", large=False),) * 3, ProtocolViolation, "again"),
    "native encryption": (
        (ACCEPT[:22] + b"\x10" + ACCEPT[23:],),
        Unavailable,
        "native network encryption",
    ),
    "an old version": ((ACCEPT[:8] + b"\1\x2c" + ACCEPT[10:],), Unavailable, "older"),
    "an old database": (
        (
            ACCEPT,
            tns.data_packets(
                n.server_protocol(n.ServerProtocol(6, b"x", 873, 2000, 1, bytes((8,)) * 45, bytes(7))), 8192
            ),
        ),
        Unavailable,
        "19c",
    ),
    "another protocol": ((b"SSH-2.0-OpenSSH_9.2\r\n",), ProtocolViolation, "Oracle"),
    "a large packet": ((b"\xff\xff\0\0\2\0\0\0",), ProtocolViolation, "65535"),
}


@pytest.mark.parametrize(("packets", "error", "text"), BAD_TARGETS.values(), ids=BAD_TARGETS.keys())
def test_targets_that_cannot_be_used(packets: tuple[bytes, ...], error: type[PosternError], text: str) -> None:
    raised = answering(*packets)
    assert isinstance(raised, error)
    assert text in raised.message


def greeted(*packets: bytes) -> tuple[PosternError, bytes]:
    """The error of a client that sends these packets, and what it got."""

    async def run() -> tuple[PosternError, bytes]:
        near, far = handshake_pair(tls=False)
        for packet in packets:
            near.write(packet)
        listened = await asyncio.wait_for(listen(far), 10)
        assert listened.error is not None
        return listened.error, near.take()

    return asyncio.run(run())


DESCRIPTOR = b"(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=orders)))"
CONNECT = connects.connect(DESCRIPTOR, 8192)


def types(**changed: object) -> bytes:
    return tns.data_packets(replace(n.own_types(), **changed).encode(), 8192)  # type: ignore[arg-type]


def capability(place: int, value: int) -> bytes:
    capabilities = bytearray(n.OFFERED)
    capabilities[place] = value
    return types(capabilities=bytes(capabilities))


PROTOCOL = tns.data_packets(n.client_protocol(b"x"), 8192)
BAD_CLIENTS = {
    "another protocol": ((b"GET / HTTP/1.1\r\n",), "Oracle"),
    "TLS that is not offered": ((b"\x16\3\1\0\0\0\0\0",), "TLS"),
    "no connect": ((tns.packet(tns.DATA, b"\0\0x", large=False),), "CONNECT"),
    "an old client": ((CONNECT[:8] + b"\1\x2c" + CONNECT[10:],), "12.1"),
    "a bad descriptor": ((connects.connect(b"(DESCRIPTION=", 8192),), "descriptor"),
    "types before the protocol": ((CONNECT, types()), "in place of"),
    "a login before the types": ((CONNECT, PROTOCOL, PROTOCOL), "in place of"),
    "native numbers": ((CONNECT, PROTOCOL, types(types=((25, 25, 0),))), "thin client"),
    "an old field version": ((CONNECT, PROTOCOL, capability(n.AT_FIELD_VERSION, 6)), "12.2"),
    "no status of calls": ((CONNECT, PROTOCOL, capability(n.TTC1, 0)), "12.2"),
    "small chunks": ((CONNECT, PROTOCOL, capability(n.TTC3, 0)), "12.2"),
    "a call before the login": (
        (CONNECT, PROTOCOL, types(), tns.data_packets(b"\3\x5e\1" + bytes(20), 8192)),
        "before",
    ),
    "a token": ((CONNECT, PROTOCOL, types(), tns.data_packets(b"\3\x73\1\0\0\0\1\0\1\1", 8192)), "password"),
}


@pytest.mark.parametrize(("packets", "text"), BAD_CLIENTS.values(), ids=BAD_CLIENTS.keys())
def test_attack_clients_that_cannot_be_served(packets: tuple[bytes, ...], text: str) -> None:
    error, sent = greeted(*packets)
    assert text in error.message
    assert sent, "the client gets an error"


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (n.AT_FIELD_VERSION, 24, 12),
        (n.AT_FIELD_VERSION, 11, 11),
        (n.TTC4, 0x64, 0x04),
        (n.TTC5, 0xFF, 0),
        (n.TTC3, 0xB8, 0xB0),
    ],
)
def test_capabilities_are_lowered(place: int, value: int, expected: int) -> None:
    capabilities = bytearray(n.OFFERED)
    capabilities[place] = value
    lowered = replace(n.own_types(), capabilities=bytes(capabilities)).lower()
    assert lowered.capabilities[place] == expected


@pytest.mark.parametrize("national", [None, 2000])
@pytest.mark.parametrize("zone", [b"", n.UTC, n.UTC + bytes(4)])
def test_types_are_read_as_they_were_made(national: int | None, zone: bytes) -> None:
    capabilities = bytearray(n.OFFERED)
    capabilities[n.TTC3] = 0xB8 | (0x02 if len(zone) > 11 else 0)
    offered = replace(
        n.own_types(),
        capabilities=bytes(capabilities),
        runtime=bytes((2, 1 if zone else 0, 0, 0, 0, 0, 0)),
        time_zone=zone,
        national_charset=national,
    )
    reader = TtcReader(offered.encode(), 1)
    assert n.read_client_types(reader) == offered
    assert reader.pos == reader.end
    answer = TtcReader(n.gateway_types(offered), 1)
    assert n.read_server_types(answer, offered) == offered.types
    assert answer.pos == answer.end
