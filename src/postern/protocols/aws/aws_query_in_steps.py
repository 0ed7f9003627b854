"""A query of the gateway's own that consists of several AWS operations, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Generic, Protocol, TypeVar

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, TargetRefused

_Asked = TypeVar("_Asked")
_Answered = TypeVar("_Answered")


class NumberedResponse(Protocol):
    """A whole response. `exchange` is the number of its request."""

    @property
    def exchange(self) -> int: ...


_Response = TypeVar("_Response", bound=NumberedResponse)


class ResponseReader(Protocol[_Response]):
    """Puts responses together from the frames of a link."""

    @property
    def needs(self) -> int: ...

    def feed(self, data: bytes) -> list[_Response]: ...


class AwsQueryInSteps(Generic[_Asked, _Response, _Answered]):
    """Runs operations one after another, each of which can depend on the answers before it.

    `steps` yields operations, receives the answer to each, and adds rows to `rows`. `encode` makes the request of an
    operation with its number, and `read` the answer from a response.
    """

    def __init__(
        self,
        steps: Generator[_Asked, _Answered, None],
        rows: list[Row],
        responses: ResponseReader[_Response],
        encode: Callable[[int, _Asked], bytes],
        read: Callable[[_Response], _Answered],
    ) -> None:
        self._steps = steps
        self._rows = rows
        self._responses = responses
        self._encode = encode
        self._read = read
        self._number = 1
        self._next = b""
        self.finished = False
        self.error: TargetRefused | None = None
        self._ask(partial(next, self._steps))

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next."""
        return self._responses.needs

    def start(self) -> bytes:
        """Return the first request."""
        return self.request()

    def request(self) -> bytes:
        """Return the next request to send, once; empty while a response is incomplete."""
        sent, self._next = self._next, b""
        return sent

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows that are complete now. Raises ProtocolViolation."""
        for response in self._responses.feed(data):
            if self.finished or response.exchange != self._number:
                raise ProtocolViolation("the target sent a response to no request")
            answer = self._read(response)
            self._number += 1
            self._ask(partial(self._steps.send, answer))
        rows = self._rows.copy()
        self._rows.clear()
        return rows

    def _ask(self, advance: Callable[[], _Asked]) -> None:
        try:
            asked = advance()
        except StopIteration:
            self.finished = True
        except TargetRefused as refused:
            self.error, self.finished = refused, True
        else:
            self._next = self._encode(self._number, asked)
