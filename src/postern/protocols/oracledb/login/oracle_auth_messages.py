"""The calls of an authentication, and their answers: names with values, as texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_answers import read_server_piggyback
from postern.protocols.oracledb.wire.oracle_output import encode_error, read_error
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader, pack_clr, pack_dlc, pack_number
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

# Modes of an authentication
LOGON: Final = 0x001
CHANGE_PASSWORD: Final = 0x002
WITH_PASSWORD: Final = 0x100

_MAX_PAIRS: Final = 256
_MAX_VALUE: Final = 16 * 1024

Pair = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class AuthCall:
    """A call of an authentication. `function` is that of its first or second phase."""

    function: int
    sequence: int
    user: str
    mode: int
    values: dict[str, str]


def read_auth_call(reader: TtcReader, layout: TtcLayout) -> AuthCall:
    """Read a call of an authentication. Raises ProtocolViolation for any other call."""
    if reader.ub1() != c.FUNCTION:
        raise ProtocolViolation("the client sent something else than a login")
    function = reader.ub1()
    if function not in (c.AUTH_PHASE_ONE, c.AUTH_PHASE_TWO):
        raise ProtocolViolation(f"the client sent function {function} before its login")
    sequence = reader.ub1()
    has_user = reader.ub1()
    size = reader.ub4()
    mode = reader.ub4()
    reader.ub1()
    count = reader.ub4()
    reader.skip(2)
    if count > _MAX_PAIRS:
        raise ProtocolViolation(f"the client sent {count} values with its login")
    user = reader.text(size, layout.counts_texts) if has_user else b""
    values: dict[str, str] = {}
    for _ in range(count):
        name, value = _text(reader.dlc()), _text(reader.dlc())
        reader.ub4()
        values.setdefault(name, value)
    return AuthCall(function, sequence, _text(user), mode, values)


def _text(data: bytes) -> str:
    if len(data) > _MAX_VALUE:
        raise ProtocolViolation("a value of a login is too long")
    return data.decode("utf-8", "surrogateescape").rstrip("\0")


def auth_call(function: int, sequence: int, user: str, mode: int, pairs: Iterable[Pair], layout: TtcLayout) -> bytes:
    """Encode a call of an authentication."""
    name = user.encode("utf-8", "surrogateescape")
    encoded = [_pair(*pair) for pair in pairs]
    head = bytes((c.FUNCTION, function, sequence, 1 if name else 0))
    numbers = pack_number(len(name)) + pack_number(mode) + b"\1" + pack_number(len(encoded)) + b"\1\1"
    return b"".join([head, numbers, pack_clr(name) if name and layout.counts_texts else name, *encoded])


def _pair(name: str, value: str, flags: int) -> bytes:
    return pack_dlc(name.encode()) + pack_dlc(value.encode("utf-8", "surrogateescape")) + pack_number(flags)


def auth_answer(pairs: Iterable[Pair], sequence: int) -> bytes:
    """Encode an answer to a call of an authentication, with its end. `sequence` is that of the call."""
    encoded = [_pair(*pair) for pair in pairs]
    return b"".join([bytes((c.PARAMETER,)), pack_number(len(encoded)), *encoded, encode_error(0, "", sequence)])


@dataclass(frozen=True, slots=True)
class AuthAnswer:
    """An answer of a target. `kind` is that of the password verifier, `error` and `message` those of its end."""

    values: dict[str, str]
    kind: int
    error: int
    message: str


def read_auth_answer(reader: TtcReader, layout: TtcLayout) -> AuthAnswer:
    """Read an answer to a call of an authentication up to its end. Raises ProtocolViolation."""
    values: dict[str, str] = {}
    kind = 0
    while True:
        message = reader.ub1()
        if message == c.PARAMETER:
            count = reader.ub2()
            if count > _MAX_PAIRS:
                raise ProtocolViolation(f"the target sent {count} values at login")
            for _ in range(count):
                name, value = _text(reader.dlc()), _text(reader.dlc())
                flags = reader.ub4()
                values.setdefault(name, value)
                if name == "AUTH_VFR_DATA":
                    kind = flags
        elif message == c.ERROR:
            error = read_error(reader, layout)
            text = error.texts[-1].decode("utf-8", "replace").rstrip() if error.texts else ""
            return AuthAnswer(values, kind, error.number, text)
        elif message == c.STATUS:
            reader.ub4()
            reader.ub2()
            return AuthAnswer(values, kind, 0, "")
        elif message == c.WARNING:
            number, size = reader.ub2(), reader.ub2()
            reader.ub2()
            if number:
                reader.text(size, layout.counts_texts)
        elif message == c.SERVER_PIGGYBACK:
            read_server_piggyback(reader)
        else:
            raise ProtocolViolation(f"the target sent a message of type {message} at login")
