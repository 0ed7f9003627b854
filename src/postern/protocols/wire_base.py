"""What every protocol offers the relay, and what it may ask of it.

A protocol is two things. Its *login* is a coroutine over a `Handshake`: it reads top to bottom, and
any driver can run it, because it awaits nothing but the handshake's own methods. Its steady state
is a `Wire`: fed with bytes of one side, polled for pieces, told what the pipeline decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar

from postern.interception.events import Completed, Operation, Output, Resized, Rows
from postern.interception.verdicts import Refuse, Warn

T = TypeVar("T")

TARGET_GONE: Final = "08006"  # the code of a farewell where the target has closed the connection


class Side(Enum):
    CLIENT = "client"
    TARGET = "target"


class Handshake(Protocol):
    """A byte stream during login. Every method raises ConnectionError when the peer goes away."""

    async def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""

    def write(self, data: bytes) -> None: ...

    @property
    def buffered(self) -> int:
        """Bytes received and not read yet. Anything here when TLS starts was stuffed in, where the peer has to wait for
        an answer before it starts: refuse it."""

    async def start_tls(self) -> None:
        """From here on TLS, with the context that the driver was made with: what is buffered belongs to it."""

    @property
    def tls_offered(self) -> bool:
        """Whether `start_tls` can work."""

    async def offload(self, work: Callable[[], T]) -> T:
        """The result of a computation that is too long for the event loop."""

    @property
    def channel_binding(self) -> bytes | None:
        """`tls-server-end-point` data of RFC 5929 under TLS, else None."""


class Request:
    """Client messages that are judged as one: all of them reach the target, or none.

    `forced` is a refusal that the protocol itself decided on, such as a message too large to be judged.
    """

    __slots__ = ("forced", "operations")

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.forced: Refuse | None = None


class Carried:
    """Bytes for the client that a recording names and does not hold: of a file. An event tells of them."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Reply:
    """Bytes for the target, in answer to what it has said: the client is not asked."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


Piece = bytes | Carried | Rows | Output | Completed | Reply


@dataclass(slots=True)
class Wants:
    """Which events some interceptor asks for. What nobody wants is not even decoded. `batches`: some interceptor needs
    requests that belong together to be complete before any of them is forwarded, see `Wire.open_batch`."""

    operations: bool = False
    batches: bool = False
    rows: bool = False
    output: bool = False
    headings: bool = False
    summaries: bool = False


@dataclass(frozen=True)
class TransactionState:
    """How a session stands at the target. `in_transaction`: it may have changes that nobody else sees yet; `unsettled`:
    it has asked for something that may change what is told here. `reported` are settings, as the target told them;
    None where nothing is known of them."""

    in_transaction: bool = False
    unsettled: bool = False
    reported: Mapping[str, str] | None = None


class Wire:
    """The steady state of one link. Raises ProtocolViolation for bytes that its protocol forbids.

    A base class rather than a Protocol, because calls to it are compiled into direct ones; not an ABC, see `Event`.
    """

    wants: Wants

    def feed_client(self, data: bytes) -> None:
        raise NotImplementedError

    def poll_client(self) -> bytes | Request | Resized | None:
        """Bytes for the target that need no judgement, a request to judge, what is only to be recorded, or None: feed
        me more."""
        raise NotImplementedError

    def admit(self, request: Request) -> bytes:
        """The request was let through: its bytes for the target."""
        raise NotImplementedError

    def refuse(self, request: Request, refusal: Refuse) -> bytes:
        """The request was refused: bytes for the target, if it must be told anything.

        What the client is told comes out of `poll_target` when its turn in the order of answers has come.
        """
        raise NotImplementedError

    def notice(self, warning: Warn) -> bytes:
        """What tells the client of a warning, as bytes that may stand between two messages of an answer."""
        raise NotImplementedError

    def tell(self, warning: Warn) -> None:
        """The client is to be told in front of the answer to what is admitted next: `poll_target` says it when the
        turn of that has come. It is no answer itself."""
        raise NotImplementedError

    @property
    def answers_waiting(self) -> bool:
        """Whether `poll_target` has something to say without further bytes of the target."""
        raise NotImplementedError

    def feed_target(self, data: bytes) -> None:
        raise NotImplementedError

    def poll_target(self) -> list[Piece]:
        """The next pieces in order; a Rows or Output is always the last of a list. Empty: feed me more."""
        raise NotImplementedError

    def render(self, event: Rows | Output) -> bytes:
        """The event's bytes as it stands now."""
        raise NotImplementedError

    def cut(self, event: Rows | Output, refusal: Refuse) -> bytes:
        """The answer was refused: bytes for the client in its place; the rest of the answer is swallowed."""
        raise NotImplementedError

    @property
    def open_batch(self) -> int:
        """A number that identifies the incomplete batch whose requests are kept back, or 0 when there is none. A client
        that waits for an answer may never complete it: `release` ends the wait."""
        return 0

    @property
    def batch_has_run(self) -> bool:
        """Whether the target has run a part of the batch to which the next requests belong."""
        return False

    @property
    def withholds(self) -> bool:
        """Whether something waits for more of it to come, and should not wait for long: see `release`."""
        return False

    @property
    def settles(self) -> bool:
        """Whether what the client sends waits until the target has taken in what it was told last: `poll_client` gives
        nothing until `release`."""
        return False

    def release(self) -> None:
        """What is withheld has waited long enough: `poll_target` gives it next, and `poll_client`."""

    @property
    def swallows(self) -> bool:
        """Whether the target still sends an answer that nobody is shown, and owes no other: it may as well be told to
        stop."""
        return False

    @property
    def exit_code(self) -> int | None:
        """Of what ran on the target, once it has ended; None in protocols that know none."""
        return None

    @property
    def standing(self) -> TransactionState:
        """How the session stands at the target."""
        return TransactionState()

    @property
    def busy(self) -> bool:
        """Whether the target still owes an answer."""
        raise NotImplementedError

    def position(self, side: Side) -> str:
        """Say for the log where `side` stands: the type of the message that is read, its offset in all that the side
        has sent, and what the other one owes. Never holds data."""
        return ""

    def client_finished(self) -> bytes:
        """The client sends no more: bytes that tell the target so, in the protocol's own way."""
        raise NotImplementedError

    def left_over(self) -> list[Completed]:
        """What is to be recorded of what is under way when the link ends; asked once."""
        return []

    def farewell(self, message: str, code: str, hint: str = "") -> bytes:
        """A last error for the client, before the link closes; nothing where the protocol says it by the close alone.
        `code` is an SQLSTATE of PostgreSQL."""
        raise NotImplementedError

    @property
    def goodbye(self) -> bool:
        """The client has ended the conversation in the protocol's own way."""
        raise NotImplementedError

    @property
    def unfinished(self) -> int:
        """Bytes that the client still lacks of a message of which it was sent a part."""
        raise NotImplementedError

    @property
    def needs_farewell(self) -> bool:
        """False once the client has said goodbye or has been told a fatal error by the target."""
        raise NotImplementedError
