"""The gateway's answer to `hello`, before and after a login.

A driver decides by it what it talks to. The gateway says that it is a mongos, whatever the target is: a driver then
looks for no other servers, and uses sessions and transactions. There is no `topologyVersion`, so that monitors ask
every ten seconds instead of waiting for changes, and no `compression`, so that messages stay readable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import bson
from bson import Int64, ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from postern.errors import ProtocolViolation

# Names of the command. Drivers use the older ones until a server has answered with `helloOk`.
HELLO: Final = frozenset({"hello", "isMaster", "ismaster"})

# The same for all connections: drivers keep counters for each service that they meet behind a load balancer.
SERVICE_ID: Final = ObjectId(b"postern-mngo")

# The wire version of each version of the server (mongodb/mongo: src/mongo/db/wire_version.h).
WIRE_VERSIONS: Final[Mapping[str, int]] = {"4.4": 9, "5.0": 13, "6.0": 17, "7.0": 21, "8.0": 25}

# Values of a hello that Python cannot represent are no reason to end a connection.
_OPTIONS: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_AUTO
)

MAX_DOCUMENT: Final = 16 * 1024 * 1024
MAX_MESSAGE: Final = 48_000_000
MAX_WRITE_BATCH: Final = 100_000
# What drivers leave in a message for the rest of a command, beside its largest document.
COMMAND_SPACE: Final = 16 * 1024
SESSION_TIMEOUT: Final = 30  # minutes


@dataclass(frozen=True, slots=True)
class HelloFacts:
    """What `hello` says about the server. Sizes are in bytes, `logical_session_timeout` in minutes; with None the
    server has no sessions."""

    max_wire_version: int
    min_wire_version: int = 0
    max_document: int = MAX_DOCUMENT
    max_message: int = MAX_MESSAGE
    max_write_batch: int = MAX_WRITE_BATCH
    logical_session_timeout: int | None = SESSION_TIMEOUT
    connection_id: int = 0

    @classmethod
    def of_version(cls, version: str) -> Self:
        """Return the facts of a server of this version, such as 7.0. Raises ValueError for one that is not known."""
        known = WIRE_VERSIONS.get(version)
        if known is None:
            raise ValueError(f"{version!r} is not one of {', '.join(WIRE_VERSIONS)}")
        return cls(known)

    @classmethod
    def of_target(cls, parameters: Mapping[str, str]) -> Self:
        """Return the facts of a target that was logged in to. Those that it did not tell are the usual ones."""

        def number(name: str, usual: int) -> int:
            text = parameters.get(name, "")
            return int(text) if text.isdecimal() else usual

        timeout = parameters.get("logical_session_timeout", "")
        return cls(
            max_wire_version=number("max_wire_version", WIRE_VERSIONS["4.4"]),
            min_wire_version=number("min_wire_version", 0),
            max_document=number("max_document", MAX_DOCUMENT),
            max_message=number("max_message", MAX_MESSAGE),
            max_write_batch=number("max_write_batch", MAX_WRITE_BATCH),
            logical_session_timeout=int(timeout) if timeout.isdecimal() else None,
        )

    def limit_messages(self, max_message: int) -> HelloFacts:
        """Return these facts for a gateway that evaluates messages of at most so many bytes."""
        message = min(self.max_message, max_message)
        return replace(self, max_message=message, max_document=min(self.max_document, max(message - COMMAND_SPACE, 1)))

    def with_connection(self, connection_id: int) -> HelloFacts:
        return replace(self, connection_id=connection_id)


def hello_reply(request: Mapping[str, Any], facts: HelloFacts) -> dict[str, Any]:
    """Return the answer to `request`, which is a hello in any of its spellings."""
    name = next(iter(request), "")
    answer: dict[str, Any] = {"isWritablePrimary" if name == "hello" else "ismaster": True}
    if request.get("helloOk") is True:
        answer["helloOk"] = True
    answer |= {
        "msg": "isdbgrid",
        "maxBsonObjectSize": facts.max_document,
        "maxMessageSizeBytes": facts.max_message,
        "maxWriteBatchSize": facts.max_write_batch,
        "connectionId": Int64(facts.connection_id),
        "minWireVersion": facts.min_wire_version,
        "maxWireVersion": facts.max_wire_version,
        "readOnly": False,
    }
    if facts.logical_session_timeout is not None:
        answer["logicalSessionTimeoutMinutes"] = facts.logical_session_timeout
    if request.get("loadBalanced") is True:
        answer["serviceId"] = SERVICE_ID
    answer["ok"] = 1.0
    return answer


def hello_after_login(parameters: Mapping[str, str], max_message: int = MAX_MESSAGE) -> Callable[[bytes], bytes]:
    """Return a function that replies to a hello after the login, both as BSON documents. `parameters` are the
    target's, `max_message` is in bytes. It raises ProtocolViolation for a document that cannot be read."""
    facts = HelloFacts.of_target(parameters).limit_messages(max_message)

    def answer(request: bytes) -> bytes:
        try:
            document = bson.decode(request, _OPTIONS)
        except (BSONError, ValueError, OverflowError, RecursionError) as error:
            raise ProtocolViolation(f"the client sent a hello that cannot be read ({type(error).__name__})") from None
        return bson.encode(hello_reply(document, facts))

    return answer
