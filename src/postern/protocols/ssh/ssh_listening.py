"""The messages between a listener at a target and the gateway: each is the payload of one frame, as words of text.

    agent → gateway, STDOUT   `listens PORT`                it listens at this port
                              `came NUMBER PORT HOST`       a connection from this address is waiting
    gateway → agent, STDIN    `refuse NUMBER`               the connection is refused

An accepted connection is dialled as a separate channel, by its number. With agent forwarding there is no port: it is
sent as 0, and each use of the agent is a connection.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from postern.errors import ProtocolViolation

_LISTENS, _CAME, _REFUSE = "listens", "came", "refuse"
_MOST_HOST: Final = 255
AGENT: Final = "ssh-agent"  # the listening address for agent forwarding; not a valid host:port


class ListeningMessage(NamedTuple):
    port: int


class WaitingConnection(NamedTuple):
    """A waiting connection. `number` is assigned by the agent, in digits."""

    number: str
    host: str
    port: int


def listens(port: int) -> bytes:
    return f"{_LISTENS} {port}".encode()


def came(number: str, host: str, port: int) -> bytes:
    """Encode a waiting connection. A host that is neither a valid name nor an address is left out, because the target
    sent it."""
    plain = host[:_MOST_HOST] if host.isascii() and host.isprintable() and " " not in host else ""
    return f"{_CAME} {number} {port} {plain or '?'}".encode()


def refuse(number: str) -> bytes:
    return f"{_REFUSE} {number}".encode()


def read_message(data: bytes) -> ListeningMessage | WaitingConnection:
    """Parse a message of the agent. Raises ProtocolViolation."""
    match data.decode("ascii", "replace").split(" "):
        case [word, port] if word == _LISTENS and _is_port(port):
            return ListeningMessage(int(port))
        case [word, number, port, host] if word == _CAME and number.isdecimal() and _is_port(port) and host:
            return WaitingConnection(number, host, int(port))
    raise ProtocolViolation("the message of a listener at a target is not valid")


def read_refused(data: bytes) -> str:
    """Parse a refusal and return its number. Raises ProtocolViolation."""
    word, _, number = data.decode("ascii", "replace").partition(" ")
    if word != _REFUSE or not number.isdecimal():
        raise ProtocolViolation("the message to a listener at a target is not valid")
    return number


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 65536


def read_place(what: str) -> tuple[str, int]:
    """Parse a listening address `host:port`. The host can be empty, and is in brackets if it contains colons; the port
    can be 0. Raises ValueError."""
    host, _, port = what.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if len(host) > _MOST_HOST or (host and not host.isprintable()) or not _is_port(port):
        raise ValueError("no host:port")
    return host, int(port)


def read_what(what: str) -> tuple[str, int] | None:
    """Parse where a listener listens; None is the client's agent. Raises ValueError."""
    return None if what == AGENT else read_place(what)


def place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
