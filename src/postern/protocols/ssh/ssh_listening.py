"""What a listener at a target and the gateway tell each other: each message is the payload of one frame, words of text.

agent → gateway, STDOUT   `listens PORT`                it does, at this port
                          `came NUMBER PORT HOST`       somebody came, from there; they wait
gateway → agent, STDIN    `refuse NUMBER`               nobody takes them
Who is taken is dialled as a channel of its own, by its number. Where the client's agent is lent there is no port: it is
told as 0, and who comes is whoever asks the agent.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from postern.errors import ProtocolViolation

_LISTENS, _CAME, _REFUSE = "listens", "came", "refuse"
_MOST_HOST: Final = 255
AGENT: Final = "ssh-agent"  # what is listened at when the client's agent is lent, as no host:port can be


class Listens(NamedTuple):
    port: int


class Came(NamedTuple):
    """`number` is one of the agent's, in digits."""

    number: str
    host: str
    port: int


def listens(port: int) -> bytes:
    return f"{_LISTENS} {port}".encode()


def came(number: str, host: str, port: int) -> bytes:
    """What is no name or address of a host is left out: it is the target's word."""
    plain = host[:_MOST_HOST] if host.isascii() and host.isprintable() and " " not in host else ""
    return f"{_CAME} {number} {port} {plain or '?'}".encode()


def refuse(number: str) -> bytes:
    return f"{_REFUSE} {number}".encode()


def read_told(data: bytes) -> Listens | Came:
    """What the agent says. Raises ProtocolViolation."""
    match data.decode("ascii", "replace").split(" "):
        case [word, port] if word == _LISTENS and _is_port(port):
            return Listens(int(port))
        case [word, number, port, host] if word == _CAME and number.isdecimal() and _is_port(port) and host:
            return Came(number, host, int(port))
    raise ProtocolViolation("a listener at a target that says what cannot be read")


def read_refused(data: bytes) -> str:
    """The number. Raises ProtocolViolation."""
    word, _, number = data.decode("ascii", "replace").partition(" ")
    if word != _REFUSE or not number.isdecimal():
        raise ProtocolViolation("what is said to a listener at a target cannot be read")
    return number


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 65536


def read_place(what: str) -> tuple[str, int]:
    """`host:port` to listen at. The host may be empty, in brackets where it has colons; the port may be 0. Raises
    ValueError."""
    host, _, port = what.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if len(host) > _MOST_HOST or (host and not host.isprintable()) or not _is_port(port):
        raise ValueError("no host:port")
    return host, int(port)


def read_what(what: str) -> tuple[str, int] | None:
    """Where a listener listens; None is the client's agent. Raises ValueError."""
    return None if what == AGENT else read_place(what)


def place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
