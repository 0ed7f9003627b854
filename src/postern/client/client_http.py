"""HTTP requests and answers: the token, the error body, and the exception of each failure."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import httpx

from postern import __version__
from postern.domain.identity.validity import refused_for_its_dates
from postern.domain.secret import Secret
from postern.errors import ERROR_HEADER, UNREACHABLE, Invalid, Unavailable, Unreachable, error_of

_PAGE = 100  # items; the maximum of one answer
TIMEOUT = 70.0  # seconds; the API waits up to 50 for a script before it answers that it is still running
_NO_TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # of http; loading authorities takes longer than most commands
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Http:
    """Calls below `<api_url>/api`. Each failure is raised as the error class of its status, with the API's own message;
    Unavailable if nothing answers, or something that is not Postern.

    An authenticated write has an `Idempotency-Key`. If its connection breaks, it is sent once more with the same key:
    the gateway does not carry it out twice.
    """

    def __init__(
        self,
        api_url: str,
        token: Secret | None = None,
        *,
        authority: str | None = None,
        timeout: float = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`authority` is a PEM text of certificates to trust in addition to the system's; `transport` is for tests."""
        headers = {"User-Agent": f"postern/{__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token.reveal()}"
        self.api_url = api_url.rstrip("/")
        self._is_known = token is not None
        self._timeout = timeout
        try:
            self._client = httpx.Client(
                base_url=f"{self.api_url}/api",
                headers=headers,
                timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
                verify=_trust(authority) if httpx.URL(api_url).scheme == "https" else _NO_TRUST,
                transport=transport,
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise Invalid(f"{api_url!r} is not the address of a gateway: {error}", field="api_url") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Call the API and return the answer's JSON; None for an answer without a body. Query values that are None are
        left out."""
        answer = self.send(method, path, body=body, query=query, headers=headers)
        return self._json(answer) if answer.content else None

    def all(self, path: str, *, query: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the items of a list, over all its pages: by cursor where the list has one, else by offset."""
        entries: list[Any] = []
        place: dict[str, Any] = {"offset": 0}
        while True:
            page = self.call("GET", path, query={**(query or {}), "limit": _PAGE, **place})
            try:
                items, more, cursor = list(page["data"]), page["has_next_page"], page.get("next_cursor")
            except (KeyError, TypeError, AttributeError):
                raise Unavailable(
                    f"{self.api_url} answered with a list that this version cannot read; update this program"
                ) from None
            entries += items
            if not more or not (items or cursor):
                return entries
            place = {"cursor": cursor} if cursor else {"offset": len(entries)}

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Return the whole answer, for callers that need one of its headers. `form` is sent instead of a `body`."""
        key = {"Idempotency-Key": uuid4().hex} if self._is_known and method in _WRITES else {}
        sent = {**(headers or {}), **key}
        request = self._client.build_request(
            method, path, json=body, data=form, params=_drop_unset(query), headers=sent
        )
        with self._convert_errors():
            if not key:
                return self._require_success(self._client.send(request))
            try:
                answer = self._client.send(request)
            except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
                answer = self._again(request, error)
        return self._require_success(answer)

    def _again(self, request: httpx.Request, first: httpx.HTTPError) -> httpx.Response:
        """Wait while the gateway still works on the first request. Raises `first` if the token is no longer valid: the
        first request can be the reason."""
        end = time.monotonic() + self._timeout
        while True:
            answer = self._client.send(request)
            pause = _pause(answer)
            if pause is None or time.monotonic() + pause > end:
                break
            time.sleep(pause)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise first
        return answer

    @contextmanager
    def lines(
        self,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Iterator[Iterator[str]]:
        """Yield the lines of a streamed answer. It ends with the stream. A `body` is posted."""
        all_headers = {"Accept": "text/event-stream" if body is None else "application/x-ndjson", **(headers or {})}
        method = "GET" if body is None else "POST"
        response = self._client.stream(method, path, params=_drop_unset(query), headers=all_headers, json=body)
        with self._convert_errors(), response as answer:
            if not answer.is_success:
                answer.read()
            self._require_success(answer)
            yield answer.iter_lines()

    @contextmanager
    def pieces(self, path: str, *, query: Mapping[str, Any] | None = None) -> Iterator[Iterator[bytes]]:
        """Yield the bytes of an answer that can be large."""
        with self._convert_errors(), self._client.stream("GET", path, params=_drop_unset(query)) as answer:
            if not answer.is_success:
                answer.read()
            self._require_success(answer)
            yield answer.iter_bytes()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert httpx's exceptions."""
        try:
            yield
        except httpx.UnsupportedProtocol:
            raise Invalid(f"{self.api_url!r} is not an http or https address", field="api_url") from None
        except httpx.TimeoutException:
            raise Unavailable(f"the gateway at {self.api_url} did not answer in time; try again") from None
        except (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError):
            raise Unavailable(
                f"the connection to the gateway at {self.api_url} was lost; it is unknown whether the "
                "request was carried out; check before you repeat it"
            ) from None
        except httpx.HTTPError as error:
            raise Unavailable(f"the gateway at {self.api_url} cannot be reached: {_why(error)}") from None

    def _require_success(self, answer: httpx.Response) -> httpx.Response:
        if answer.is_success:
            return answer
        if answer.headers.get(ERROR_HEADER) == UNREACHABLE:
            raise Unreachable(self._message(answer))
        raise error_of(answer.status_code)(self._message(answer))

    def _json(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError:
            raise Unavailable(f"the answer of {self.api_url} is not from Postern's API; check the address") from None

    def _message(self, answer: httpx.Response) -> str:
        try:
            return str(answer.json()["message"])
        except (ValueError, KeyError, TypeError):
            return f"{self.api_url} answered {answer.status_code} {answer.reason_phrase} without a reason"


def _pause(answer: httpx.Response) -> float | None:
    """Return the seconds to wait, if the same request is in progress."""
    if answer.status_code != httpx.codes.CONFLICT:
        return None
    try:
        return max(0.1, float(answer.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None


def _drop_unset(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _why(error: httpx.HTTPError) -> str:
    text = str(error) or type(error).__name__
    if dates := refused_for_its_dates(text, datetime.now(UTC)):
        return dates
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"its certificate is not trusted ({text}); give its CA with `postern login --ca FILE`"
    return f"{text}; check the address, and that the gateway is running"


def _trust(authority: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if authority:
        try:
            context.load_verify_locations(cadata=authority)
        except ssl.SSLError as error:
            raise Invalid(f"the CA certificate cannot be read as PEM: {error}", field="ca") from None
    return context
