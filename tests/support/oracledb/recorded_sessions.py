"""Recorded sessions of Oracle clients and servers, in files of tests/recorded/oracledb: its README has the format."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.oracledb.listener_packets import PacketSplitter
from tests.support.oracledb.server_session import ServerOptions, ServerSession

FOLDER = Path(__file__).parents[2] / "recorded" / "oracledb"
FORMAT = 1
OWN_SERVER = "test server"
CLOCK = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, datetime.UTC)


@dataclass
class RecordedSession:
    """What went in both directions, in order."""

    client: str  # name and version
    server: str  # name and version; "test server 19c" is ours
    about: str
    pieces: list[tuple[bool, bytes]] = field(default_factory=list)  # whether the client sent it, and what

    @property
    def is_own(self) -> bool:
        return self.server.startswith(OWN_SERVER)

    @property
    def level(self) -> str:
        return self.server.split()[-1]

    def sent(self, by_client: bool) -> bytes:
        """Return all bytes of one direction."""
        return b"".join(data for is_client, data in self.pieces if is_client is by_client)

    def write(self, file: Path) -> None:
        head = {"format": FORMAT, "client": self.client, "server": self.server, "about": self.about}
        lines = [head] + [
            {"from": "client" if is_client else "server", "hex": data.hex()} for is_client, data in self.pieces
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_session(file: Path) -> RecordedSession:
    """Read a file. Raises ValueError if it is not one of this format."""
    head, *lines = [json.loads(line) for line in file.read_text().splitlines()]
    if head.get("format") != FORMAT:
        raise ValueError(f"{file.name} is not a recorded session of format {FORMAT}")
    pieces = []
    for line in lines:
        if line["from"] not in ("client", "server"):
            raise ValueError(f"{file.name} has a piece from {line['from']!r}: it must be 'client' or 'server'")
        pieces.append((line["from"] == "client", bytes.fromhex(line["hex"])))
    return RecordedSession(head["client"], head["server"], head["about"], pieces)


def session_files() -> list[Path]:
    return sorted(FOLDER.glob("*.jsonl"))


def repeatable_options(options: ServerOptions) -> ServerOptions:
    """Return options with which a server answers the same bytes with the same bytes."""
    return replace(options, random=repeatable_random(), clock=lambda: CLOCK)


def repeatable_random() -> Callable[[int], bytes]:
    """Return a source of bytes that are the same in each process."""

    def stream() -> Iterator[int]:
        number = 0
        while True:
            yield from hashlib.sha256(number.to_bytes(8, "big")).digest()
            number += 1

    source = stream()
    return lambda count: bytes(next(source) for _ in range(count))


def replay(session: ServerSession, data: bytes, size: int) -> bytes:
    """Return what a session answers to a client's bytes that arrive in pieces of `size`."""
    splitter = PacketSplitter()
    replies = []
    for start in range(0, len(data), size):
        splitter.feed(data[start : start + size])
        while not session.closed and (packet := splitter.next_packet()):
            replies.append(session.receive(packet))
            splitter.large = session.large_packets
    return b"".join(replies)
