"""Requests to a tracker: to the checked address, with limits of time and size, without following redirects.

Administrators of an organisation choose an address that this server then connects to. It must not reach what only this
machine, its cloud or its network can reach, unless the machine's settings name that network.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from postern.domain.addresses import Network, check_resolved
from postern.domain.issues.issue import Issue, Uncertain
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound, PosternError, Unavailable
from postern.integrations.identity.fetch import Resolve, resolve
from postern.integrations.identity.identity_addresses import is_loopback_host
from postern.integrations.sinks.receivers import trust

SETTING = "POSTERN_TRACKER_NETWORKS"
LIMIT = 4 * 1024 * 1024  # bytes of an answer
DEADLINE = 20.0  # seconds for a whole request; trackers are slow to create an issue
CONNECT = 5.0  # of them, to connect
MAX_PAUSE = 24 * 3600  # maximum seconds of a requested pause
MAX_MESSAGE = 1_000  # characters of a tracker's error
MAX_KEY, MAX_URL = 255, 2_000  # characters of an issue's key and URL
_HIDDEN = 8  # characters of the shortest credentials that are removed from an answer
_ADDRESSES = 2  # attempted addresses of a host
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class TrackerResponse:
    """A response. `content` is its JSON; None if it is not JSON."""

    status: int
    headers: Mapping[str, str]
    content: Any

    def text(self, name: str) -> str:
        return text(self.content, name)


class TrackerClient:
    """The client of one tracker. `error_texts` extracts those of a response; `verdict` can override the meaning of
    its status: it returns an error, or None."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str | Secret],
        error_texts: Callable[[Any], Sequence[str]],
        *,
        secret: Secret,
        verdict: Callable[[TrackerResponse, str], PosternError | None] = lambda _reply, _said: None,
        authority: str = "",
        allowed: tuple[Network, ...] = (),
        resolver: Resolve = resolve,
        deadline: float = DEADLINE,
    ) -> None:
        """`headers` are in each request; `secret` is in no message. Raises Invalid."""
        self.url = checked_base(url)
        self._headers = headers
        self._said = error_texts
        self._secret = secret
        self._verdict = verdict
        self._authority = authority
        self._allowed = allowed
        self._resolve = resolver
        self._deadline = deadline
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
        makes: bool = False,
        url: str = "",
    ) -> TrackerResponse:
        """Send a request. `makes`: a lost request may have been executed, so Unavailable becomes Uncertain. `url`
        replaces the tracker's own. Raises Denied, NotFound, Invalid, Unavailable."""
        whole = httpx.URL((url or self.url) + path)
        if query:
            whole = whole.copy_merge_params(dict(query))
        lost = Uncertain if makes else Unavailable
        addresses = await self._addresses(whole)
        try:
            async with asyncio.timeout(self._deadline):
                reply = await self._first(method, whole, addresses, body, lost)
        except TimeoutError:
            raise lost(f"{whole.host} did not answer in {self._deadline:g} seconds") from None
        self._check(whole.host, reply, lost)
        if makes and not isinstance(reply.content, dict):
            raise Uncertain(f"{whole.host} did not answer with a JSON object")
        return reply

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].aclose()

    async def _addresses(self, url: httpx.URL) -> list[str]:
        """Return the checked addresses. Raises Unavailable."""
        host, port = url.host, url.port or (443 if url.scheme == "https" else 80)
        try:
            async with asyncio.timeout(self._deadline):
                addresses = await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError):
            raise Unavailable(f"the host name {host} cannot be resolved") from None
        check_resolved(host, addresses, self._allowed, SETTING)
        return addresses[:_ADDRESSES]

    async def _first(
        self,
        method: str,
        url: httpx.URL,
        addresses: list[str],
        body: Mapping[str, Any] | None,
        lost: type[Unavailable],
    ) -> TrackerResponse:
        """Use the first address that accepts a connection. The name is not resolved again, because it could change."""
        client = await self._ready(url.host)
        problem: Exception | None = None
        for address in addresses:
            # The certificate must be for the name, although the connection is to the address.
            request = client.build_request(
                method,
                url.copy_with(host=address),
                headers={**self._make_headers(body), "Host": url.netloc.decode()},
                content=None if body is None else json.dumps(dict(body)).encode(),
                extensions={"sni_hostname": url.host},
            )
            try:
                return await _answer(client, request, url.host, lost, self._list_credentials())
            except _UNSENT as error:
                problem = error
            except (OSError, httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
                # Only the kind: the text may contain what was sent.
                raise lost(f"the connection to {url.host} broke: {type(error).__name__}") from None
        raise Unavailable(f"{url.host} cannot be reached: {clean_line(str(problem) or type(problem).__name__)}")

    def _make_headers(self, body: Mapping[str, Any] | None) -> dict[str, str]:
        # A compressed answer could be far larger than the bytes that are counted here.
        fixed = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "postern"}
        more = {} if body is None else {"Content-Type": "application/json"}
        configured = {
            name: value.reveal() if isinstance(value, Secret) else value for name, value in self._headers.items()
        }
        return {**fixed, **configured, **more}

    async def _ready(self, host: str) -> httpx.AsyncClient:
        """Return the client of a name: connections are pooled by address, which two names may share."""
        if host not in self._clients:
            # Loading all authorities takes longer than most requests.
            trusted = await asyncio.to_thread(trust, self._authority)
            if host not in self._clients:
                self._clients[host] = httpx.AsyncClient(
                    verify=trusted,
                    trust_env=False,
                    timeout=httpx.Timeout(self._deadline, connect=min(CONNECT, self._deadline / 2)),
                    limits=httpx.Limits(max_connections=8, max_keepalive_connections=2, keepalive_expiry=30),
                )
        return self._clients[host]

    def _check(self, host: str, reply: TrackerResponse, lost: type[Unavailable]) -> None:
        if 200 <= reply.status < 300:
            return
        if 300 <= reply.status < 400:
            # A permanent redirect stays permanent.
            kind = Invalid if reply.status in (301, 308) else lost if reply.status == 303 else Unavailable
            raise kind(f"{host} answered {reply.status}: redirects are not followed; set the address that it leads to")
        reason = self._words(reply)
        error = self._verdict(reply, reason)
        if error is not None:
            raise error
        words = f"{host} answered {reply.status}{': ' + reason if reason else ''}"
        if reply.status in _PASSING:
            raise Unavailable(words, retry_after=pause_of(reply))
        if reply.status >= 500 or reply.status == 408:  # possibly from a proxy that has forwarded the request
            raise lost(words, retry_after=pause_of(reply))
        raise _PERMANENT.get(reply.status, Invalid)(words)

    def _words(self, reply: TrackerResponse) -> str:
        """Return the error texts without our credentials in any form: some servers quote a request in their errors."""
        message = "; ".join(part for part in self._said(reply.content) if part)
        for secret in self._list_credentials():
            message = message.replace(secret, "***")
        return clean_line(message)

    def _list_credentials(self) -> list[str]:
        """Return the credentials, the longest first: some are parts of others."""
        sent = [value.reveal() for value in (self._secret, *self._headers.values()) if isinstance(value, Secret)]
        return sorted({*sent, *(value.rpartition(" ")[2] for value in sent)} - {""}, key=len, reverse=True)


# Not executed, and not because of the request: concurrent change, locked, too early, rate limit.
_PASSING = frozenset({409, 423, 425, 429})
_PERMANENT: Mapping[int, type[PosternError]] = {401: Denied, 403: Denied, 404: NotFound, 410: NotFound}


async def _answer(
    client: httpx.AsyncClient, request: httpx.Request, host: str, lost: type[Unavailable], hidden: Sequence[str]
) -> TrackerResponse:
    """Read a response, and remove `hidden` from it, because it may become an issue's URL, or the name of an asset."""
    answer = await client.send(request, stream=True, follow_redirects=False)
    try:
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise lost(f"{host} compressed its answer, which was not requested")
        received = bytearray()
        async for chunk in answer.aiter_raw():
            received += chunk
            if len(received) > LIMIT:
                raise lost(f"the answer of {host} is larger than {LIMIT} bytes")
    finally:
        await answer.aclose()
    for secret in hidden:
        if len(secret) >= _HIDDEN:
            for form in (secret, secret.replace("/", "\\/")):
                received = received.replace(form.encode(), b"***")
    try:
        content = json.loads(received)
    except (ValueError, RecursionError):
        content = None
    return TrackerResponse(answer.status_code, answer.headers, content)


def checked_base(url: str) -> str:
    """Return the URL without its last slash. Raises Invalid."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid("the address of the tracker is not a valid URL", field="url") from None
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))):
        raise Invalid("the address of the tracker must begin with https:// (http:// on loopback only)", field="url")
    odd = not url.isascii() or not url.isprintable() or " " in url
    if odd or parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid(
            "the address of the tracker must have no user, query, fragment, space or non-ASCII character", field="url"
        )
    return url.rstrip("/")


def segment(text: str, field: str) -> str:
    """Return the text as one segment of a path. Raises Invalid for a text that cannot be one."""
    if text in ("", ".", ".."):
        raise Invalid(f"{field}: {text!r} is not a valid value", field=field)
    return quote(text, safe="")


def make_issue(key: str, url: str) -> Issue:
    """Return the created issue. Raises Uncertain for values that cannot be stored, or contain control characters."""
    if len(key) > MAX_KEY or len(url) > MAX_URL or not (key + url).isprintable():
        raise Uncertain("the tracker answered with a key or URL that is too long or has control characters")
    return Issue(key, url)


def require_its(issue: Issue, is_its: bool) -> None:
    """Check that the issue is in this tracker: in another one, its key may be a different issue's. Raises Invalid."""
    if not is_its:
        raise Invalid(clean_line(f"{issue.key} is in a different tracker, at {issue.url}; it was not changed"))


def pause_of(reply: TrackerResponse) -> int | None:
    """Return the requested pause in seconds, in either form of Retry-After (RFC 9110, 10.2.3)."""
    header = reply.headers.get("Retry-After", "").strip()
    if header.isascii() and header.isdigit():
        return min(int(header[:9]), MAX_PAUSE)
    try:
        until = parsedate_to_datetime(header)
    except (ValueError, TypeError):
        return None
    left = (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)
    return min(max(round(left.total_seconds()), 1), MAX_PAUSE)


def clean_line(words: str, most: int = MAX_MESSAGE) -> str:
    """Return one line without control characters."""
    line = " ".join("".join(word if word.isprintable() else " " for word in words[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def text(content: Any, name: str) -> str:
    """Return that text of an object; "" if it has none."""
    value = content.get(name) if isinstance(content, dict) else None
    return value if isinstance(value, str) else ""


def mapping(content: Any, name: str) -> Mapping[str, Any]:
    value = content.get(name) if isinstance(content, dict) else None
    return value if isinstance(value, dict) else {}


def rows(content: Any, name: str | None = None) -> list[Mapping[str, Any]]:
    """Return the objects in that list of an object; without a name, in the list itself."""
    items = content if name is None else content.get(name) if isinstance(content, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
