"""The contracts of logins find gates and logins that are broken on purpose; the protocol is made up."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256

import pytest
from tests.support.protocols import login_contracts
from tests.support.protocols.login_contracts import Gate, check_gate, check_log_in

from postern.errors import PosternError, ProtocolViolation, Unauthenticated
from postern.relay.relay_handshake import StreamHandshake

USER, PASSWORD = "ann", "secret"
OK, NO = b"+", b"-"
GARBAGE = [b"GET / HTTP/1.1", b"\xff" * 40]


def proof(nonce: bytes, user: bytes, password: str) -> bytes:
    return sha256(nonce + user + password.encode()).digest()


def gate(
    *,
    nonce: Callable[[], bytes] = lambda: secrets.token_bytes(16),
    longest: int = 32,
    unknown: bytes = NO,
    behind: int = 0,
    everybody: bool = False,
) -> Callable[[], Gate]:
    """Says a nonce; reads a length, a name and a proof; answers OK or NO. `behind`: it reads so much too far."""

    async def let_in(stream: StreamHandshake) -> bool:
        said = nonce()
        stream.write(said)
        [size] = await stream.read(1)
        if size > longest:
            stream.write(NO)
            return False
        user = await stream.read(size)
        given = await stream.read(32)
        if everybody or (user == USER.encode() and given == proof(said, user, PASSWORD)):
            await stream.read(behind)
            stream.write(OK)
            return True
        stream.write(NO if user == USER.encode() else unknown)
        return False

    return lambda: let_in


async def log_in(stream: StreamHandshake, user: str, password: str) -> None:
    nonce = await stream.read(16)
    stream.write(bytes([len(user)]) + user.encode() + proof(nonce, user.encode(), password))
    answer = await stream.read(1)
    if answer == NO:
        raise Unauthenticated("it is wrong")
    if answer != OK:
        raise ProtocolViolation("neither yes nor no")


async def check(make_gate: Callable[[], Gate]) -> None:
    await check_gate(make_gate, log_in, user=USER, stranger="eve", password=PASSWORD, garbage=GARBAGE)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_contracts, "_LONGEST", 0.5)


async def test_one_that_keeps_them() -> None:
    await check(gate())
    await check_log_in(gate(), log_in, user=USER, password=PASSWORD, garbage=[bytes(16) + b"?"])


async def test_a_gate_that_lets_everybody_in_is_found_out() -> None:
    with pytest.raises(AssertionError, match="a wrong password is let in"):
        await check(gate(everybody=True))


async def test_a_gate_that_tells_who_is_known_is_found_out() -> None:
    with pytest.raises(AssertionError, match="unlike nobody"):
        await check(gate(unknown=b"?"))


async def test_a_gate_that_tells_who_is_known_by_how_much_it_says_is_found_out() -> None:
    with pytest.raises(AssertionError, match="more than an unknown user"):
        await check(gate(unknown=NO + b"..."))


async def test_a_gate_that_loses_what_is_said_early_is_found_out(hasty: None) -> None:
    with pytest.raises(AssertionError, match="waits for what nobody sends"):
        await check(gate(behind=1))


async def test_a_gate_that_takes_a_login_twice_is_found_out() -> None:
    with pytest.raises(AssertionError, match="of another login let somebody in"):
        await check(gate(nonce=lambda: bytes(16)))


async def test_a_gate_that_waits_for_garbage_is_found_out(hasty: None) -> None:
    with pytest.raises(AssertionError, match="waits for what nobody sends"):
        await check(gate(longest=255))


async def test_a_login_that_takes_anything_for_an_answer_is_found_out() -> None:
    async def trusts(stream: StreamHandshake, user: str, password: str) -> None:
        try:
            await log_in(stream, user, password)
        except PosternError:
            await stream.read(0)

    with pytest.raises(AssertionError, match="ends a login with"):
        await check_log_in(gate(), trusts, user=USER, password=PASSWORD, garbage=[bytes(16) + b"?" * 40])
