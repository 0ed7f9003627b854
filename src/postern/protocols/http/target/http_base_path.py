"""The base path of an application, as in `REMOTE_URL=https://host/base`: put before the path of each request, and taken
away from what answers say about paths.

A request whose path leaves the base (`/base/../admin`) is rejected, however it is encoded: servers resolve dot segments
differently, and administrators rely on the base.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from postern.protocols.http.http_heads import RequestHead, ResponseHead

_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")
# A segment of dots between slashes or backslashes, which some servers take for slashes; each can be encoded, and
# encoded twice. Some servers cut parameters off (`..;x`).
_SLASH: Final = r"(?:/|\\|%(?:25)*(?:2f|5c))"
_DOTS = re.compile(rf"{_SLASH}(?:\.|%(?:25)*2e){{1,2}}(?:;[^/]*)?(?:{_SLASH}|$)", re.IGNORECASE)
_URL = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#]*")
_PATH_HEADERS: Final = frozenset({b"location", b"content-location"})


def is_base_path(path: str) -> bool:
    """Return True if `path` is empty, or segments that each begin with a slash."""
    return bool(_PATH.fullmatch(path)) and not _DOTS.search(path)


class HttpBasePath:
    """A base path: empty, or as in `is_base_path`. `origin` is the application's: the base path is also taken away from
    URLs there."""

    def __init__(self, path: str, origin: str) -> None:
        self._path = path
        self._bytes = path.encode()
        self._origin = origin.encode()

    def request(self, head: RequestHead) -> RequestHead:
        """Return the request to send. Raises ValueError if its path leaves the base."""
        if not self._path or head.target == "*":
            return head
        if _DOTS.search(head.path):
            raise ValueError("the path has a segment '.' or '..', which could leave the path in REMOTE_URL")
        return replace(head, target=self._path + head.target)

    def response(self, head: ResponseHead) -> ResponseHead:
        """Return the response with paths below the base. Paths outside of it stay: clients cannot reach them."""
        if not self._path:
            return head
        return head.with_headers(tuple((name, self._rewrite(name, value)) for name, value in head.headers))

    def _rewrite(self, name: bytes, value: bytes) -> bytes:
        if name in _PATH_HEADERS:
            return self._below_url(value)
        return self._cookie(value) if name == b"set-cookie" else value

    def _below_url(self, url: bytes) -> bytes:
        match = _URL.match(url)
        if match is None:
            return self._below(url)
        if match[0].lower() != self._origin:
            return url
        return match[0] + self._below(url[match.end() :])

    def _below(self, path: bytes) -> bytes:
        """Return a path without the base. A URL of only the base is the root."""
        rest = path[len(self._bytes) :]
        if not path.startswith(self._bytes) or (rest and rest[:1] not in (b"/", b"?", b"#")):
            return path
        return rest if rest.startswith(b"/") else b"/" + rest

    def _cookie(self, cookie: bytes) -> bytes:
        parts = cookie.split(b";")
        for at, part in enumerate(parts[1:], 1):
            name, _, path = part.partition(b"=")
            if name.strip().lower() == b"path":
                parts[at] = b" Path=" + self._below(path.strip())
        return b";".join(parts)
