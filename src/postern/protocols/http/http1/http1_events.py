"""What readers of HTTP/1.1 return besides heads, and their limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postern.protocols.http.http_heads import Headers


@dataclass(frozen=True, slots=True)
class BodyData:
    """Bytes of a body, as they came. Never empty."""

    data: bytes


@dataclass(frozen=True, slots=True)
class BodyEnd:
    """The end of a message. Each head is followed by one, also without a body; 101 is not."""

    trailers: Headers = ()


@dataclass(frozen=True, slots=True)
class Http1Limits:
    """How much a reader accepts. A body has no limit: its bytes are returned as they come.

    - `first_line`: bytes of a request line (414) or status line.
    - `head`: bytes of a head (431), and of all heads of interim responses.
    - `fields`: header fields of a head (431).
    - `trailers`: bytes of all trailers.
    - `chunk_line`: bytes of a line that begins a chunk.
    - `chunk_extensions`: bytes of all chunk extensions of a body.
    - `waiting`: bytes after the end of a message, such as pipelined requests. One `feed` can exceed it, the next fails.
    """

    first_line: int = 16 * 1024
    head: int = 64 * 1024
    fields: int = 200
    trailers: int = 16 * 1024
    chunk_line: int = 1024
    chunk_extensions: int = 16 * 1024
    waiting: int = 64 * 1024


DEFAULT_LIMITS: Final = Http1Limits()
END: Final = BodyEnd()
