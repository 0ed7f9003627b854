"""What a link and a connection to the application know of each other, whichever version of HTTP it speaks."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from mypy_extensions import mypyc_attr

from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead


class Retry(Enum):
    """Whether a request that failed can be sent again.

    - UNANSWERED: the connection was used before, or idle, and no byte of a response has arrived. Most likely the
      application closed it before the request came.
    - UNPROCESSED: the application says that it did not process the request.
    """

    NEVER = "never"
    UNANSWERED = "unanswered"
    UNPROCESSED = "unprocessed"


class UpstreamUser(Protocol):
    """The link whose exchange an upstream carries. After `response_ended` or `exchange_failed` the upstream calls it no
    more, until the next `begin`."""

    def response_started(self, head: ResponseHead) -> None: ...

    def response_data(self, data: bytes) -> None: ...

    def response_ended(self, trailers: Headers) -> None: ...

    def exchange_failed(self, failure: TargetFailure, retry: Retry = Retry.NEVER) -> None: ...

    def upstream_full(self, full: bool) -> None:
        """Stop or continue to send."""

    def flush_output(self) -> None:
        """Pass on what was reported since the last call. Called after everything that one read has brought."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Upstream:
    """A connection to the application, or a stream of one. It carries one exchange after another, if `is_reusable`."""

    def __init__(self, *, is_http2: bool) -> None:
        self.is_http2 = is_http2

    @property
    def is_full(self) -> bool:
        raise NotImplementedError

    def is_reusable(self, *, repeatable: bool) -> bool:
        """Return whether the next exchange can use it. `repeatable`: that exchange could be sent a second time."""
        raise NotImplementedError

    def begin(self, user: UpstreamUser, head: RequestHead) -> None:
        """Send a request head. A head with the length 0 is the whole request. Raises ValueError if it cannot be
        written; nothing was sent then."""
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        """Send bytes of the body; after 101, of the new protocol."""
        raise NotImplementedError

    def end(self, trailers: Headers) -> None:
        """End the body; after 101, this direction. Raises ValueError for trailers that cannot be written."""
        raise NotImplementedError

    def flush(self) -> None:
        """Write what `begin`, `send` and `end` have left."""

    def pause_reading(self) -> None:
        raise NotImplementedError

    def resume_reading(self) -> None:
        raise NotImplementedError

    def unsent(self) -> int:
        """Return the number of bytes that wait to be written."""
        raise NotImplementedError

    def close(self) -> None:
        """Give the exchange up, and the connection unless others use it. The user is not called any more."""
        raise NotImplementedError
