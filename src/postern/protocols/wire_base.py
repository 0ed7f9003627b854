"""The interface between a protocol and the relay.

A protocol has two parts. Its *login* is a coroutine over a `Handshake`. It reads top to bottom, and any driver can run
it, because it awaits only the handshake's own methods. Its steady state is a `Wire`: the relay feeds it the bytes of
one side, polls it for pieces, and passes on the decisions of the pipeline. Neither part does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar

from postern.interception.events import Completed, Note, Operation, Output, Paused, Resized, Rows
from postern.interception.verdicts import Refuse, Warn

T = TypeVar("T")

TARGET_GONE: Final = "08006"  # the code of the last error when the target has closed the connection
# … and of sessions that were ended, where a protocol distinguishes that from a shutdown.
KILLED: Final = "57014"
ACCESS_ENDED: Final = "28000"


class Side(Enum):
    CLIENT = "client"
    TARGET = "target"


class Handshake(Protocol):
    """A byte stream during login. Every method raises ConnectionError when the peer goes away."""

    async def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""

    async def peek(self, size: int) -> bytes:
        """The next `size` bytes once they have arrived; they stay unread. A wait that is cancelled loses none."""

    def read_buffered(self, size: int) -> bytes | None:
        """The next `size` bytes if they have arrived, else None, and nothing is read."""

    def write(self, data: bytes) -> None: ...

    def write_later(self, data: bytes) -> None:
        """Send this before the bytes that are written next, together with them."""

    @property
    def buffered(self) -> int:
        """Number of bytes received and not read yet. Where the peer has to wait for an answer before it starts TLS, any
        byte here was injected before encryption: reject it."""

    async def start_tls(self) -> None:
        """Switch to TLS with the driver's context. Buffered bytes are part of the TLS stream."""

    @property
    def tls_offered(self) -> bool:
        """Whether `start_tls` can work."""

    async def offload(self, work: Callable[[], T]) -> T:
        """Run a computation that is too long for the event loop elsewhere, and return its result."""

    @property
    def channel_binding(self) -> bytes | None:
        """`tls-server-end-point` data of RFC 5929 under TLS, else None."""


class Request:
    """Client messages that are judged together: all of them are forwarded, or none.

    `forced` is a refusal by the protocol itself, for example of a message that is too large to be judged. `continues`:
    they read on what an earlier request began, in its exchange. They are judged, but not recorded again.
    """

    __slots__ = ("continues", "forced", "operations")

    def __init__(self) -> None:
        self.continues = False
        self.operations: list[Operation] = []
        self.forced: Refuse | None = None

    def bound_values(self, place: int) -> bytes:
        """Return the bind values of an operation as the client sent them, in a form of the protocol's own. Empty if the
        texts of the operation are enough for queries of the gateway."""
        return b""


class UnrecordedOutput:
    """Bytes of a file for the client. The recording does not contain them; an event describes them."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class RedactedOutput:
    """Bytes for the client that contain a secret. `recorded` is what the recording has instead of them."""

    __slots__ = ("data", "recorded")

    def __init__(self, data: bytes, recorded: bytes) -> None:
        self.data = data
        self.recorded = recorded


class Reply:
    """Bytes for the target that answer a message of its own, without the client."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


Piece = bytes | UnrecordedOutput | RedactedOutput | Rows | Output | Completed | Paused | Reply


@dataclass(slots=True)
class Wants:
    """The events that at least one interceptor asks for. Others are not even decoded. `batches`: an interceptor needs
    requests that belong together to be complete before any of them is forwarded, see `Wire.open_batch`."""

    operations: bool = False
    batches: bool = False
    rows: bool = False
    output: bool = False
    headings: bool = False
    summaries: bool = False


@dataclass(frozen=True)
class TransactionState:
    """The transaction state of a session at the target.

    `in_transaction`: it may have uncommitted changes. `unsettled`: a pending request may change this state. `reported`:
    the settings that the target has reported, or None if it reports none. `texts`: statements that may have set others,
    in order; None if not all of them are known.
    """

    in_transaction: bool = False
    unsettled: bool = False
    reported: Mapping[str, str] | None = None
    texts: tuple[str, ...] | None = ()


class Wire:
    """The steady state of one link. Methods that read raise ProtocolViolation for bytes that the protocol forbids.

    A base class and not a Protocol, because calls to it are compiled into direct ones; not an ABC, see `Event`.
    """

    wants: Wants

    def feed_client(self, data: bytes) -> None:
        raise NotImplementedError

    def poll_client(self) -> bytes | Request | Resized | Operation | Note | Completed | None:
        """Return bytes for the target that need no judgement, a request to judge, or an event that is only recorded.
        None: feed more bytes."""
        raise NotImplementedError

    def forward(self, request: Request) -> bytes:
        """The request was admitted. Return its bytes for the target."""
        raise NotImplementedError

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        """The request was refused. Return bytes for the target, if it must be sent anything.

        The error for the client comes out of `poll_target`, at its place in the order of responses.
        """
        raise NotImplementedError

    def warning_bytes(self, warning: Warn) -> bytes:
        """Return the warning as bytes that may be sent between two messages of a response."""
        raise NotImplementedError

    def queue_warning(self, warning: Warn) -> None:
        """Send the client this warning before the response to the next admitted request: `poll_target` returns it at
        that place in the order of responses. It is not a response itself."""
        raise NotImplementedError

    @property
    def has_pending_output(self) -> bool:
        """Whether `poll_target` has pieces to return without further bytes of the target."""
        raise NotImplementedError

    def feed_target(self, data: bytes) -> None:
        raise NotImplementedError

    def poll_target(self) -> list[Piece]:
        """Return the next pieces in order; a Rows or Output is always the last of a list. Empty: feed more bytes."""
        raise NotImplementedError

    def render(self, event: Rows | Output) -> bytes:
        """Encode the event, with the changes that interceptors made."""
        raise NotImplementedError

    def take_preface(self) -> RedactedOutput | None:
        """Return what the client is sent before the bytes that `render` or `abort_response` has just returned, if that
        is recorded otherwise than it is sent. Each is returned once."""
        return None

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        """The response was refused. Return bytes for the client in its place; the rest is discarded."""
        raise NotImplementedError

    @property
    def half_open(self) -> bool:
        """Whether each direction ends alone, as in TCP: a side that sends no more can still receive. A session that
        ends otherwise resets both connections, so that no side takes what it has received for complete."""
        return False

    @property
    def open_batch(self) -> int:
        """A number that identifies the incomplete batch whose requests are buffered, or 0 when there is none. A client
        that waits for a response may never complete it: `flush` ends the wait."""
        return 0

    @property
    def batch_has_run(self) -> bool:
        """Whether the target has run a part of the batch to which the next requests belong."""
        return False

    @property
    def has_buffered_output(self) -> bool:
        """Whether output is buffered until more of it comes. It should not wait for long: see `flush`."""
        return False

    @property
    def is_interrupted(self) -> bool:
        """Whether the client has interrupted its last request in the protocol itself, as Ctrl-C does at a terminal.
        Asked while that request is held."""
        return False

    @property
    def input_paused(self) -> bool:
        """Whether client input is paused until the target has processed the last control sequence: `poll_client`
        returns None until `flush`."""
        return False

    def flush(self) -> None:
        """Stop waiting: `poll_target` and `poll_client` return what is buffered next."""

    @property
    def discarding_response(self) -> bool:
        """Whether the current response is being discarded and no other is pending, so that the target can be asked to
        stop it."""
        return False

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program at the target once it has ended; None in protocols without exit codes."""
        return None

    @property
    def transaction_state(self) -> TransactionState:
        """The transaction state of the session at the target."""
        return TransactionState()

    @property
    def awaiting_response(self) -> bool:
        """Whether the target still owes a response."""
        raise NotImplementedError

    def position(self, side: Side) -> str:
        """Describe for the log where `side` is: the type of the message being read, its offset in all bytes of this
        side, and the responses that the other side owes. Never contains data."""
        return ""

    def client_finished(self) -> bytes:
        """The client sends no more. Return the bytes that tell the target, in the protocol's own way."""
        raise NotImplementedError

    def unfinished_exchanges(self) -> list[Completed]:
        """Return what is recorded of requests still running when the link ends; called once."""
        return []

    def fatal_error(self, message: str, code: str, hint: str = "") -> bytes:
        """Encode a last error for the client before the link closes; empty where the protocol only closes. `code` is an
        SQLSTATE of PostgreSQL."""
        raise NotImplementedError

    @property
    def client_terminated(self) -> bool:
        """Whether the client has ended the session in the protocol's own way."""
        raise NotImplementedError

    @property
    def partial_message_bytes(self) -> int:
        """Number of bytes that the client still lacks of a message that was sent in part."""
        raise NotImplementedError

    @property
    def needs_fatal_error(self) -> bool:
        """False once the client has terminated the session or the target has sent it a fatal error."""
        raise NotImplementedError
