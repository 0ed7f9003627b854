"""Git over HTTP, for dulwich: to the checked address only, with a count of bytes."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urljoin, urlsplit

from dulwich.client import AbstractHttpGitClient

from postern.errors import Unavailable
from postern.integrations.git.git_places import CheckedRoute, RepositoryPlace
from postern.integrations.git.meter import Meter

_REDIRECTS = 3
_AGENT = "git/2.0 (postern)"  # some servers show a web page to programs other than git


class HttpClient(AbstractHttpGitClient):
    """The client. `user` and `password` are in every request, because it only connects to this place."""

    def __init__(
        self, place: RepositoryPlace, way: CheckedRoute, meter: Meter, authority: str, user: str, password: str
    ) -> None:
        super().__init__(f"{place.scheme}://{place.authority}/", quiet=True, thin_packs=False)
        self._place = place
        self._way = way
        self._meter = meter
        self._trusted = authority
        self._credentials = b64encode(f"{user}:{password}".encode()).decode() if password else ""

    def _http_request(
        self,
        url: str,
        headers: dict[str, str] | None = None,
        data: bytes | Iterator[bytes] | None = None,
        raise_for_status: bool = True,
    ) -> tuple[Any, Callable[[int], bytes]]:
        """Return what dulwich expects: the response with two more attributes, and its read function. Raises
        Unavailable."""
        body = data if data is None or isinstance(data, bytes) else b"".join(data)
        first_url = url
        for _ in range(_REDIRECTS + 1):
            answer = self._ask(url, headers or {}, body)
            if answer.status not in (301, 302, 303, 307, 308):
                break
            if body is not None:
                raise Unavailable(f"{self._host} answered with a redirect, which is not followed for this request")
            url = self._redirect_url(url, answer)
        else:
            raise Unavailable(f"{self._host} answered with too many redirects")
        self._check(answer, self._service(headers or {}, url))
        response: Any = answer
        response.content_type = answer.headers.get("Content-Type")
        response.redirect_location = url if url != first_url else ""
        return response, self._reader(answer)

    @property
    def _host(self) -> str:
        return self._place.authority

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._trusted:
            try:
                context.load_verify_locations(cafile=self._trusted)
            except (OSError, ssl.SSLError):
                raise Unavailable(
                    "the file that POSTERN_RUNBOOK_CA names cannot be read, or has no certificates"
                ) from None
        return context

    def _ask(self, url: str, headers: dict[str, str], body: bytes | None) -> HTTPResponse:
        parts = urlsplit(url)
        if (parts.scheme, parts.netloc) != (self._place.scheme, self._host):
            raise Unavailable(f"{self._host} redirects to a different host, which is not followed; check git_url")
        all_headers = {
            **headers,
            "Host": self._host,
            "User-Agent": _AGENT,
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        if self._credentials:
            all_headers["Authorization"] = f"Basic {self._credentials}"
        connection = HTTPConnection(self._place.host, self._place.port)
        try:
            # Its own connections are never used: the address was checked, and proxies are ignored.
            connection.sock = self._way.connect()
            if self._place.scheme == "https":
                connection.sock = self._trust.wrap_socket(connection.sock, server_hostname=self._place.host)
            connection.request("GET" if body is None else "POST", _target(parts.path, parts.query), body, all_headers)
            return connection.getresponse()
        except ssl.SSLCertVerificationError as error:
            raise Unavailable(
                f"the certificate of {self._host} is not trusted: {error.verify_message}; add its authority to the "
                "file that POSTERN_RUNBOOK_CA names"
            ) from None
        except (OSError, HTTPException) as error:
            raise Unavailable(f"the HTTP request to {self._host} failed: {_why(error)}") from None

    def _redirect_url(self, url: str, answer: HTTPResponse) -> str:
        answer.close()
        return urljoin(url, answer.headers.get("Location", ""))

    def _service(self, headers: dict[str, str], url: str) -> str:
        return headers.get("Accept", "") if "info/refs" not in url else "application/x-git-"

    def _check(self, answer: HTTPResponse, content_type: str) -> None:
        """Check a response. Raises Unavailable."""
        status, host = answer.status, self._host
        if status == 401:
            problem = "rejected the user and password" if self._credentials else "requires a user and password"
            raise Unavailable(f"{host} {problem}; check git_user and git_password")
        if status == 403:
            raise Unavailable(f"{host} answered 403: this password or token does not give access to the repository")
        if status == 404:
            raise Unavailable(f"{host} has no such repository, or this password or token does not give access to it")
        if status != 200:
            raise Unavailable(f"{host} answered {status}")
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Unavailable(f"{host} compressed its answer, which was not requested")
        if not (answer.headers.get("Content-Type") or "").startswith(content_type):
            raise Unavailable(f"{host} does not offer git's smart HTTP protocol at this address; check git_url")

    def _reader(self, answer: HTTPResponse) -> Callable[[int], bytes]:
        def read(length: int) -> bytes:
            try:
                data = answer.read(min(length, self._meter.left + 1))
            except (OSError, HTTPException) as error:
                raise Unavailable(f"{self._host} did not complete its answer: {_why(error)}") from None
            self._meter.add(len(data))
            return data

        return read


def _target(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def _why(error: Exception) -> str:
    return type(error).__name__ if not isinstance(error, OSError) else error.strerror or type(error).__name__
