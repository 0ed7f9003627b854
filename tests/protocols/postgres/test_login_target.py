"""The gateway's login at a target, over in-memory streams, with friendly and hostile targets."""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramMechanism
from tests.support.examples import examples
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.memory_handshake import MemoryHandshake, pair

from postern.domain.secret import Secret
from postern.errors import PosternError, ProtocolViolation, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.postgres.login.postgres_login import PostgresTargetGreeting, PostgresTargetLogin, connect
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.scram import KeyCache

PASSWORD = "of the target"
BINDING = b"hash of the target's certificate"
SCRAM, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
OK = m.authentication(m.AUTH_OK)
GREETING = [m.parameter_status("server_version", "17.0"), m.backend_key_data(7, b"key!"), m.ready_for_query(b"I")]
SSL = m.UINT32.pack(8) + m.UINT32.pack(m.SSL_REQUEST)

Behaviour = Callable[[MemoryHandshake], Awaitable[None]]


def login(sslmode: str = "disable", **parameters: str) -> PostgresTargetLogin:
    return PostgresTargetLogin("app", Secret(PASSWORD), "shop", sslmode, parameters)


async def startup(target: MemoryHandshake) -> bytes:
    length = int.from_bytes(await target.read(4), "big")
    return await target.read(length - 4)


async def connected(
    behaviour: Behaviour, how: PostgresTargetLogin | None = None, *, binding: bytes | None = None
) -> PostgresTargetGreeting:
    ours, theirs = pair(binding=binding)

    async def play() -> None:
        await behaviour(theirs)
        theirs.close()

    target = asyncio.create_task(play())
    try:
        return await asyncio.wait_for(connect(ours, how or login()), 60)
    finally:
        target.cancel()


def says(*data: bytes) -> Behaviour:
    """A target that reads the startup message and then sends this data."""

    async def behave(target: MemoryHandshake) -> None:
        await startup(target)
        target.write(b"".join(data))
        await asyncio.sleep(0.01)

    return behave


def encrypted(answer: bytes, inner: Behaviour) -> Behaviour:
    async def behave(target: MemoryHandshake) -> None:
        assert await target.read(8) == SSL
        target.write(answer)
        await asyncio.sleep(0)
        if answer == b"S":
            await target.start_tls()
        await inner(target)

    return behave


def scram(
    offered: list[str], password: str = PASSWORD, binding: bytes | None = None, salt: bytes | None = None
) -> Behaviour:
    async def behave(target: MemoryHandshake) -> None:
        await startup(target)
        target.write(m.authentication(m.AUTH_SASL, b"".join(m.cstring(name) for name in offered) + b"\0"))
        _, body = await target.message()
        chosen, pos = m.read_cstring(body, 0, len(body))
        assert chosen.decode() in offered
        mechanism = ScramMechanism(chosen.decode())
        server = mechanism.make_server(
            lambda _: ScramMechanism(SCRAM).make_auth_info(password, salt=salt),
            channel_binding=("tls-server-end-point", binding) if binding else None,
        )
        server.set_client_first(body[pos + 4 :].decode())
        target.write(m.authentication(m.AUTH_SASL_CONTINUE, server.get_server_first().encode()))
        _, body = await target.message()
        try:
            server.set_client_final(body.decode())
        except Exception:
            target.write(pg.error("password authentication failed", "28P01", "FATAL"))
            return
        target.write(m.authentication(m.AUTH_SASL_FINAL, server.get_server_final().encode()) + OK + b"".join(GREETING))
        await asyncio.sleep(0.01)

    return behave


async def test_login_succeeds_at_a_target_with_trust_authentication() -> None:
    greeting = await connected(says(OK, *GREETING))
    assert greeting == PostgresTargetGreeting({"server_version": "17.0"}, 7, b"key!")


async def test_target_receives_its_own_user_and_database_and_the_client_settings() -> None:
    """Attack 72: parameters of the client never replace the user or the database."""
    seen: list[bytes] = []

    async def behave(target: MemoryHandshake) -> None:
        seen.append(await startup(target))
        target.write(OK + b"".join(GREETING))
        await asyncio.sleep(0.01)

    await connected(behave, login(user="postgres", database="template1", TimeZone="UTC", application_name="psql"))
    assert m.parse_parameters(seen[0][4:]) == {
        "user": "app", "database": "shop", "TimeZone": "UTC", "application_name": "psql"
    }  # fmt: skip


def asks(request: bytes, expected: bytes) -> Behaviour:
    async def behave(target: MemoryHandshake) -> None:
        await startup(target)
        target.write(request)
        assert await target.message() == (b"p", expected + b"\0")
        target.write(OK + b"".join(GREETING))
        await asyncio.sleep(0.01)

    return behave


async def test_clear_text_password_is_sent_over_tls_or_if_tls_is_disabled() -> None:
    request = m.authentication(m.AUTH_CLEARTEXT)
    assert await connected(asks(request, PASSWORD.encode()), login("disable"))
    for mode in ("prefer", "require"):
        assert await connected(encrypted(b"S", asks(request, PASSWORD.encode())), login(mode))


async def test_attack_077_clear_text_password_is_not_sent_if_the_target_declines_tls() -> None:
    told: list[bytes] = []

    async def behave(target: MemoryHandshake) -> None:
        await startup(target)
        target.write(m.authentication(m.AUTH_CLEARTEXT))
        await asyncio.sleep(0.01)
        told.append(target.take())

    with pytest.raises(Unavailable, match="in clear text"):
        await connected(encrypted(b"N", behave), login("prefer"))
    assert b"".join(told) == b""


async def test_login_succeeds_with_an_md5_password() -> None:
    inner = hashlib.md5((PASSWORD + "app").encode()).hexdigest()
    answer = b"md5" + hashlib.md5(inner.encode() + b"salt").hexdigest().encode()
    assert await connected(asks(m.authentication(m.AUTH_MD5, b"salt"), answer))


async def test_login_succeeds_with_scram_and_with_channel_binding() -> None:
    assert (await connected(scram([SCRAM]))).pid == 7
    assert await connected(encrypted(b"S", scram([PLUS, SCRAM], binding=BINDING)), login("require"), binding=BINDING)


async def test_login_succeeds_with_scram_over_tls_without_channel_binding() -> None:
    assert await connected(encrypted(b"S", scram([SCRAM])), login("require"), binding=BINDING)


async def test_attack_077_gateway_tells_the_target_that_channel_binding_was_possible() -> None:
    """An attacker removed channel binding from the list. The gateway's flag "y" reveals that to the target."""
    firsts: list[bytes] = []

    async def behave(target: MemoryHandshake) -> None:
        await startup(target)
        target.write(m.authentication(m.AUTH_SASL, m.cstring(SCRAM) + b"\0"))
        firsts.append((await target.message())[1])

    with pytest.raises((PosternError, ConnectionError)):
        await connected(encrypted(b"S", behave), login("require"), binding=BINDING)
    assert b"y,,n=" in firsts[0]


async def test_login_with_a_wrong_password_is_rejected_by_the_target() -> None:
    with pytest.raises(TargetRefused, match="password authentication failed") as caught:
        await connected(scram([SCRAM], password="another"))
    assert caught.value.code == "28P01"


async def test_login_bound_to_a_different_certificate_is_rejected_by_the_target() -> None:
    with pytest.raises(TargetRefused):
        await connected(encrypted(b"S", scram([PLUS], binding=b"another")), login("require"), binding=BINDING)


TLS_ANSWERS = [
    ("prefer", b"N", None), ("prefer", b"S", None),
    ("require", b"S", None), ("verify-ca", b"S", None), ("verify-full", b"S", None),
    ("require", b"N", Unavailable), ("verify-ca", b"N", Unavailable), ("verify-full", b"N", Unavailable),
    ("prefer", b"E", ProtocolViolation), ("require", b"X", ProtocolViolation),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "answer", "error"), TLS_ANSWERS)
async def test_login_follows_the_tls_mode_and_the_answer_of_the_target(
    mode: str, answer: bytes, error: type[PosternError] | None
) -> None:
    behaviour = encrypted(answer, says(OK, *GREETING))
    if error is None:
        assert (await connected(behaviour, login(mode))).pid == 7
        return
    with pytest.raises(error):
        await connected(behaviour, login(mode))


async def test_attack_076_bytes_before_the_tls_handshake_are_a_protocol_violation() -> None:
    async def behave(target: MemoryHandshake) -> None:
        target.write(b"S" + OK + b"".join(GREETING))
        await asyncio.sleep(0.01)

    with pytest.raises(ProtocolViolation, match="before the TLS handshake"):
        await connected(behave, login("require"))


def challenges(first: Callable[[str], str], final: str = "v=AAAA") -> Behaviour:
    """A target that builds its SCRAM challenge from the client's nonce."""

    async def behave(target: MemoryHandshake) -> None:
        await startup(target)
        target.write(m.authentication(m.AUTH_SASL, m.cstring(SCRAM) + b"\0"))
        _, body = await target.message()
        nonce = body.decode("latin-1").rpartition("r=")[2]
        target.write(m.authentication(m.AUTH_SASL_CONTINUE, first(nonce).encode()))
        await target.message()
        target.write(m.authentication(m.AUTH_SASL_FINAL, final.encode()) + OK + b"".join(GREETING))
        await asyncio.sleep(0.01)

    return behave


SALT_BYTES = b"0123456789abcdef"
SALT = "MDEyMzQ1Njc4OWFiY2RlZg=="
HOSTILE: dict[str, tuple[Callable[[str], str], type[PosternError], str]] = {
    "no iterations (attack 75)": (lambda n: f"r={n}x,s={SALT},i=0", ProtocolViolation, "iterations"),
    "a billion iterations": (lambda n: f"r={n}x,s={SALT},i=1000000000", ProtocolViolation, "iterations"),
    "endless digits": (lambda n: f"r={n}x,s={SALT},i=" + "9" * 3000, ProtocolViolation, "iterations"),
    "negative iterations": (lambda n: f"r={n}x,s={SALT},i=-1", ProtocolViolation, "iterations"),
    "two iterations": (lambda n: f"r={n}x,s={SALT},i=4096,i=1", ProtocolViolation, "iterations"),
    "missing iterations": (lambda n: f"r={n}x,s={SALT}", ProtocolViolation, "iterations"),
    "few iterations": (lambda n: f"r={n}x,s={SALT},i=100", Unavailable, "scram_iterations"),
    "a long nonce": (lambda n: f"r={n}{'x' * 5000},s={SALT},i=4096", ProtocolViolation, "SASL"),
    "a different nonce": (lambda n: f"r=other,s={SALT},i=4096", Unavailable, "impostor"),
    "the client's nonce unchanged": (lambda n: f"r={n},s={SALT},i=4096", Unavailable, "impostor"),
    "no salt": (lambda n: f"r={n}x,i=4096", Unavailable, "impostor"),
    "a malformed salt": (lambda n: f"r={n}x,s=!!!,i=4096", Unavailable, "impostor"),
    "an error": (lambda n: "e=other-error,i=4096", Unavailable, "impostor"),
    "a wrong signature": (lambda n: f"r={n}x,s={SALT},i=4096", Unavailable, "impostor"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_attack_075_hostile_scram_challenge_fails_the_login(name: str) -> None:
    first, error, text = HOSTILE[name]
    with pytest.raises(error, match=text):
        await connected(challenges(first))


@pytest.mark.parametrize("final", ["", "v=", "v=!!", "x", "e=invalid-proof"])
async def test_target_without_a_valid_scram_signature_is_an_impostor(final: str) -> None:
    with pytest.raises(Unavailable, match="impostor"):
        await connected(challenges(lambda n: f"r={n}x,s={SALT},i=4096", final))


STAGES = {
    "instead of authentication": [pg.error("no such database", "3D000", "FATAL")],
    "after authentication": [OK, pg.error("too many connections", "53300", "FATAL")],
    "within the greeting": [OK, GREETING[0], pg.error("starting up", "57P03", "FATAL")],
}


@pytest.mark.parametrize("stage", STAGES)
async def test_error_at_any_stage_of_the_login_rejects_it(stage: str) -> None:
    with pytest.raises(TargetRefused):
        await connected(says(*STAGES[stage]))


async def test_attack_075_error_without_a_code_gets_code_xx000() -> None:
    with pytest.raises(TargetRefused) as caught:
        await connected(says(m.message(b"E", b"\0")))
    assert caught.value.code == "XX000"


BROKEN = {
    "only notices": [pg.notice("wait")] * 1001,
    "notices in the greeting": [OK, *[pg.notice("wait")] * 1001],
    "a greeting of many megabytes (attack 84)": [OK, *[pg.notice("x" * 60_000)] * 20],
    "one large message": [OK, b"S\x7f\xff\xff\xff"],
    "a length of 3": [b"R\0\0\0\3"],
    "a row": [pg.data_row("x")],
    "a row in the greeting": [OK, pg.data_row("x")],
    "an authentication without a code": [m.message(b"R", b"\0")],
    "a short salt": [m.authentication(m.AUTH_MD5, b"x")],
    "two proofs": [m.authentication(m.AUTH_MD5, b"salt"), m.authentication(m.AUTH_MD5, b"tlas")],
    "SASL continued before it began": [m.authentication(m.AUTH_SASL, m.cstring(SCRAM) + b"\0"), OK],
    "a cancel key of a kilobyte (attack 84)": [OK, m.backend_key_data(7, bytes(1024))],
    "no cancel key": [OK, m.message(b"K", b"\0\0\0\7")],
    "a parameter without a value": [OK, m.message(b"S", b"name\0")],
}


@pytest.mark.parametrize("name", BROKEN)
async def test_malformed_answer_to_a_login_is_a_protocol_violation(name: str) -> None:
    with pytest.raises(ProtocolViolation):
        await connected(says(*BROKEN[name]))


@pytest.mark.parametrize("code", [1, 2, 6, 7, 9, 99])
async def test_unsupported_authentication_method_is_unavailable(code: int) -> None:
    with pytest.raises(Unavailable, match="not supported"):
        await connected(says(m.authentication(code)))


async def test_unsupported_sasl_mechanisms_are_unavailable() -> None:
    for names in (b"SCRAM-SHA-1\0\0", m.cstring(PLUS) + b"\0", b"\0"):
        with pytest.raises(Unavailable, match="no supported authentication method"):
            await connected(says(m.authentication(m.AUTH_SASL, names)))


async def test_target_that_closes_during_the_login_raises_a_connection_error() -> None:
    for data in (b"", OK, OK + GREETING[0][:-1]):
        with pytest.raises(ConnectionError):
            await connected(says(data))


async def test_password_is_in_no_representation_or_error() -> None:
    assert PASSWORD not in repr(login())
    with pytest.raises(TargetRefused) as caught:
        await connected(scram([SCRAM], password="another"))
    assert PASSWORD not in repr(caught.value)


async def offloaded(how: PostgresTargetLogin, behaviour: Behaviour) -> int:
    ours, theirs = pair()
    target = asyncio.ensure_future(behaviour(theirs))
    try:
        await connect(ours, how)
    finally:
        await target
    return ours.offloaded


async def test_scram_key_is_derived_outside_the_event_loop_once_per_salt() -> None:
    how = login()
    salted = [scram([SCRAM], salt=salt) for salt in (b"0123456789abcdef", b"fedcba9876543210")]
    assert [await offloaded(how, salted[number]) for number in (0, 0, 1, 0, 1)] == [1, 0, 1, 0, 0]


async def test_scram_key_of_a_failed_login_is_not_cached() -> None:
    keys = KeyCache()
    wrong = replace(login(), password=Secret("another"), keys=keys)
    right = replace(login(), keys=keys)
    with pytest.raises(TargetRefused):
        await offloaded(wrong, scram([SCRAM], salt=SALT_BYTES))
    assert await offloaded(right, scram([SCRAM], salt=SALT_BYTES)) == 1
    with pytest.raises(TargetRefused):
        await offloaded(wrong, scram([SCRAM], salt=SALT_BYTES))
    assert keys.find(wrong.password, SALT_BYTES, 4096) is None
    assert keys.find(right.password, SALT_BYTES, 4096) is not None


@given(st.binary(max_size=80), st.integers(0, 12), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_random_login_answers_raise_only_gateway_or_connection_errors(data: bytes, code: int, greeted: bool) -> None:
    async def run() -> None:
        answer = data if code > 10 else struct.pack("!cII", b"R", len(data) + 8, code) + data
        with pytest.raises((PosternError, ConnectionError)):
            await connected(says(OK + data if greeted else answer, b"\xff"))

    asyncio.run(run())
