"""Frames of HTTP exchanges, as a listener and an agent write them."""

from __future__ import annotations

from dataclasses import replace

from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead


def request(
    target: str = "/",
    body: bytes = b"",
    *,
    method: str = "",
    headers: dict[str, str] | None = None,
    number: int = 1,
    sized: bool = True,
    piece: int = 8,
    ends: bool = True,
    upgrade: str = "",
) -> bytes:
    """Encode a request in frames of `piece` bytes."""
    head = RequestHead(
        method or ("POST" if body else "GET"),
        target,
        "app.test",
        encode(headers),
        len(body) if sized else None,
        upgrade,
    )
    end = f.end_frame(f.REQUEST_END, number) if ends else b""
    return f.request_frame(number, head) + data(f.REQUEST_DATA, body, number, piece) + end


def response(
    body: bytes = b"",
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    number: int = 1,
    sized: bool = True,
    piece: int = 8,
    ends: bool = True,
    has_body: bool = True,
    trailers: Headers = (),
) -> bytes:
    head = ResponseHead(status, encode(headers), len(body) if sized else None, has_body)
    end = f.end_frame(f.RESPONSE_END, number, trailers) if ends else b""
    return f.response_frame(number, head) + data(f.RESPONSE_DATA, body, number, piece) + end


def data(kind: int, body: bytes, number: int = 1, piece: int = 8) -> bytes:
    return b"".join([f.frame(kind, number, body[at : at + piece]) for at in range(0, len(body), piece)])


def encode(headers: dict[str, str] | None) -> Headers:
    return tuple((name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items())


class Shown:
    """What frames for a client say: the last head, all bytes of bodies, and how it ended."""

    def __init__(self, frames: bytes) -> None:
        self.head: ResponseHead | None = None
        self.body = b""
        self.failure: f.TargetFailure | None = None
        self.heads: list[ResponseHead] = []
        self.ends = 0
        self.trailers: Headers = ()
        for each in f.HttpFrameReader().feed(frames):
            if each.kind == f.RESPONSE:
                self.head = f.read_response(each.payload)
                self.heads.append(self.head)
            elif each.kind == f.RESPONSE_DATA:
                self.body += each.payload
            elif each.kind == f.FAILED:
                self.failure = f.read_failure(each.payload)
            else:
                self.ends += 1
                self.trailers = f.read_trailers(each.payload)

    @property
    def status(self) -> int:
        return self.head.status if self.head is not None else 0

    def header(self, name: str) -> str | None:
        assert self.head is not None
        values = [value for key, value in self.head.headers if key == name.encode()]
        return values[0].decode("latin-1") if values else None


def sent_requests(frames: bytes) -> list[tuple[RequestHead, bytes]]:
    """What frames for a target say."""
    requests: list[tuple[RequestHead, bytes]] = []
    for each in f.HttpFrameReader().feed(frames):
        if each.kind == f.REQUEST:
            requests.append((f.read_request(each.payload), b""))
        elif each.kind == f.REQUEST_DATA:
            head, body = requests[-1]
            requests[-1] = (head, body + each.payload)
    return [(replace(head), body) for head, body in requests]
