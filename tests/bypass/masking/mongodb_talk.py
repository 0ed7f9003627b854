"""A client's conversation with a real MongoDB server through a link that inspects, and what it is sent.

Nothing is between the link and the server but a socket: the bytes that `received` holds are those that a client would
get. Two databases have names of the same length, so that a conversation with one is also one with the other.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import bson
from bson import Binary, Code, DBRef, Decimal128, Regex, json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from tests.support.protocols import mongodb_test_messages as mg

from postern.domain.rules.policy import Policy
from postern.domain.targets.target_schema import TargetSchema
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.mongodb.queries.mongodb_query import MongodbQueryInSteps
from postern.protocols.mongodb.queries.mongodb_schema import read_relations, target_schema
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.mongodb_cursors import Cursors
from postern.protocols.mongodb.wire.mongodb_wire import MongodbWire
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, Link, Send
from postern.wiring.processes.worker_process import default_interceptors

SPOKEN: Final = b"scratch"  # what the client calls the database, whichever it is
TIMEOUT: Final = 20.0  # seconds
OPTIONS: Final = CodecOptions[dict[str, Any]](datetime_conversion=DatetimeConversion.DATETIME_AUTO, tz_aware=True)
# Of a reply: what the server chooses anew each time.
_CHOSEN: Final = frozenset({"$clusterTime", "operationTime", "postBatchResumeToken", "ns"})
Reply = dict[str, Any]


@dataclass
class MongodbTalk:
    """One client. `database` is the database that the server is asked for in place of SPOKEN."""

    port: int
    policy: Policy
    schema: TargetSchema
    database: bytes = SPOKEN
    cursors: Cursors | None = None
    received: bytes = b""
    sent: bytes = b""  # to the server
    is_closed: bool = False
    _number: int = 0
    _socket: socket.socket | None = None
    view: SessionView = field(init=False)
    link: Link = field(init=False)

    def __post_init__(self) -> None:
        assert len(self.database) == len(SPOKEN)
        self.view = SessionView(
            UUID(int=3), "ann@example.com", frozenset(), "shop", "database", "mongodb", {}, schema=self.schema
        )
        pipeline = Pipeline(default_interceptors(self.policy, self.view, "mongodb"), self.view)
        self.link = Link(MongodbWire(cursors=self.cursors), pipeline, clock=lambda: 0)

    def __enter__(self) -> MongodbTalk:
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    @property
    def is_marked(self) -> bool:
        return self.view.metrics.not_inspected > 0

    def ask(
        self, command: Mapping[str, Any] | bytes, *, sections: Mapping[str, Sequence[Any]] | None = None, flags: int = 0
    ) -> Reply:
        """Send a command and return its reply; an empty one if the link has closed."""
        self._number += 1
        encoded = b"".join(mg.sequence(name, *documents) for name, documents in (sections or {}).items())
        data = self.send(mg.request(mg.document(command), self._number, flags=flags, sections=encoded))
        return next(iter(replies(data)), {})

    def ask_text(self, text: str) -> Reply:
        """Send a command in Extended JSON."""
        return self.ask(json_util.loads(text))

    def send(self, data: bytes) -> bytes:
        """Send bytes, and return all that come back until the server owes no reply."""
        shown = self._carry(self.link.receive(Side.CLIENT, data))
        while self.link.awaiting_response and not self.is_closed:
            answer = self._server.recv(1 << 20).replace(self.database, SPOKEN)
            shown += self._carry(self.link.receive(Side.TARGET, answer) if answer else self.link.target_finished())
        if self.link.has_buffered_output:
            shown += self._carry(self.link.flush())
        self.received += shown
        return shown

    def _carry(self, effects: list[Effect]) -> bytes:
        shown = b""
        for effect in effects:
            if isinstance(effect, Send) and effect.side is Side.CLIENT:
                shown += effect.data
            elif isinstance(effect, Send):
                self.sent += effect.data
                self._server.sendall(effect.data.replace(SPOKEN, self.database))
            elif isinstance(effect, Close):
                self.is_closed = True
        return shown

    @property
    def _server(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), TIMEOUT)
        return self._socket


def replies(data: bytes) -> Iterator[Reply]:
    """Decode messages with MongoDB's own library, which fails if a length or a type is not valid."""
    pos = 0
    while pos < len(data):
        size = int.from_bytes(data[pos : pos + 4], "little")
        raw = data[pos : pos + size]
        assert len(raw) == size
        message = m.parse_message(raw)
        body = raw[message.pos : message.end]
        assert bson.is_valid(body)
        yield bson.decode(body, OPTIONS)
        pos += size


def comparable(reply: Any) -> Any:
    """Return a reply without what the server chooses anew each time."""
    if isinstance(reply, Mapping):
        return {
            name: comparable(value)
            for name, value in reply.items()
            if name not in _CHOSEN and not (name == "id" and isinstance(value, bson.Int64))
        }
    if isinstance(reply, list):
        return [comparable(each) for each in reply]
    if isinstance(reply, float):
        return repr(reply)
    return (type(reply).__name__, reply)


def read_schema(port: int, name: bytes = SPOKEN) -> TargetSchema:
    """Read the catalogue with the gateway's own queries."""
    rows: list[Any] = []
    query = MongodbQueryInSteps(read_relations(rows), rows)
    found: list[Any] = []
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as stream:
        stream.sendall(query.start())
        while not query.finished:
            found += query.feed(stream.recv(query.needs))
            stream.sendall(query.request())
    found += query.feed(b"")
    kept = [row for row in found if row[0] == name.decode()]
    renamed = [(SPOKEN.decode(), *row[1:]) for row in kept]
    return target_schema([renamed])


# Searching

Search = Callable[[bytes], bool]


def leaves(value: Any) -> Iterator[Any]:
    """Return the values and the names in a document, in their order."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield name
            yield from leaves(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, DBRef):
        yield value.id
    elif isinstance(value, Code):
        yield str(value)
        yield from leaves(value.scope or {})
    elif isinstance(value, Regex):
        yield value.pattern
    elif isinstance(value, Decimal128):
        yield str(value)
    else:
        yield value


def find_secrets(received: bytes, secrets: Iterable[str]) -> list[str]:
    """Return the secrets that the received bytes show in any encoding: as they are, reversed, in single characters,
    as numbers of characters, in hexadecimal digits, in base64."""
    texts, names, numbers, whole = [received], [], [], []
    for reply in replies(received):
        for value in leaves(reply):
            if isinstance(value, str):
                names.append(value)
            elif isinstance(value, bytes | Binary):
                texts.append(bytes(value))
            elif isinstance(value, int) and not isinstance(value, bool):
                whole.append(str(value))
                numbers.append(chr(value) if 0 < value < 0x110000 else " ")
            elif isinstance(value, float) and value == int(value if abs(value) < 1e18 else 0):
                whole.append(str(int(value)))
    texts += ["".join(names).encode(errors="replace"), "".join(numbers).encode(errors="replace")]
    texts += [" ".join(whole).encode()]
    shown = b"\0".join(texts).lower()
    return [secret for secret in secrets if any(form in shown for form in _forms(secret))]


def _forms(secret: str) -> Iterator[bytes]:
    data = secret.lower().encode()
    yield data
    yield data[::-1]
    yield data.hex().encode()
    yield base64.b64encode(secret.encode()).lower().rstrip(b"=")
    yield secret.lower().encode("utf-16-le")
