"""Requests to a tracker: to the address that was checked, bounded in time and size, never on to where a redirect leads.

Whoever administers an organisation chooses an address that this server then talks to. It may not reach what only this
machine, its cloud or its network can reach, unless the settings of the machine name that network.
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
from postern.domain.issue import Issue, Uncertain
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound, PosternError, Unavailable
from postern.integrations.identity.fetch import Resolve, resolve
from postern.integrations.identity.identity_addresses import is_loopback_host
from postern.integrations.sinks.receivers import trust

SETTING = "POSTERN_TRACKER_NETWORKS"
LIMIT = 4 * 1024 * 1024  # bytes of an answer
DEADLINE = 20.0  # seconds for a whole request; trackers take some to make an issue
CONNECT = 5.0  # of them, to connect
MAX_PAUSE = 24 * 3600  # seconds that a tracker may ask us to wait
MAX_MESSAGE = 1_000  # characters of what a tracker says
MAX_KEY, MAX_URL = 255, 2_000  # characters of an issue's
_HIDDEN = 8  # characters of the shortest credentials that are looked for in a whole answer
_ADDRESSES = 2  # how many of a host are tried
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class TrackerResponse:
    """`content` is the JSON that was answered; None when it was none."""

    status: int
    headers: Mapping[str, str]
    content: Any

    def text(self, name: str) -> str:
        return text(self.content, name)


class TrackerClient:
    """To one tracker. `said` finds in a refusal what the tracker says of it, and `verdict` may know better than its
    status what it means: it answers with an error, or None."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str | Secret],
        said: Callable[[Any], Sequence[str]],
        *,
        secret: Secret,
        verdict: Callable[[TrackerResponse, str], PosternError | None] = lambda _reply, _said: None,
        authority: str = "",
        allowed: tuple[Network, ...] = (),
        resolver: Resolve = resolve,
        deadline: float = DEADLINE,
    ) -> None:
        """`headers` go with each request; `secret` is in no message. Raises Invalid."""
        self.url = checked_base(url)
        self._headers = headers
        self._said = said
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
        """`makes`: what is lost on the way may have been done, so that Unavailable is Uncertain. `url` in place of the
        tracker's own. Raises Denied, NotFound, Invalid, Unavailable."""
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
            raise Uncertain(f"{whole.host} answered something that is no JSON object")
        return reply

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].aclose()

    async def _addresses(self, url: httpx.URL) -> list[str]:
        """All of them checked. Raises Unavailable."""
        host, port = url.host, url.port or (443 if url.scheme == "https" else 80)
        try:
            async with asyncio.timeout(self._deadline):
                found = await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError):
            raise Unavailable(f"the address of {host} cannot be found") from None
        check_resolved(host, found, self._allowed, SETTING)
        return found[:_ADDRESSES]

    async def _first(
        self,
        method: str,
        url: httpx.URL,
        addresses: list[str],
        body: Mapping[str, Any] | None,
        lost: type[Unavailable],
    ) -> TrackerResponse:
        """From the first address that lets us connect. The name is not asked again: it could answer something else."""
        client = await self._ready(url.host)
        problem: Exception | None = None
        for address in addresses:
            # The certificate must be for the name, also where the address is what is connected to.
            request = client.build_request(
                method,
                url.copy_with(host=address),
                headers={**self._given(body), "Host": url.netloc.decode()},
                content=None if body is None else json.dumps(dict(body)).encode(),
                extensions={"sni_hostname": url.host},
            )
            try:
                return await _answer(client, request, url.host, lost, self._hidden())
            except _UNSENT as error:
                problem = error
            except (OSError, httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
                # Only the kind: the words may have what was sent in them.
                raise lost(f"the connection to {url.host} broke: {type(error).__name__}") from None
        raise Unavailable(f"{url.host} cannot be reached: {cleaned(str(problem) or type(problem).__name__)}")

    def _given(self, body: Mapping[str, Any] | None) -> dict[str, str]:
        # Compressed answers could be far larger than what is counted here.
        fixed = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "postern"}
        more = {} if body is None else {"Content-Type": "application/json"}
        own = {name: one.reveal() if isinstance(one, Secret) else one for name, one in self._headers.items()}
        return {**fixed, **own, **more}

    async def _ready(self, host: str) -> httpx.AsyncClient:
        """One for each name: connections are kept by address, and two names may be at one."""
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
            # What has moved for good stays moved.
            kind = Invalid if reply.status in (301, 308) else lost if reply.status == 303 else Unavailable
            raise kind(f"{host} answered {reply.status}, a redirect, which is not followed; set where it leads")
        said = self._words(reply)
        known = self._verdict(reply, said)
        if known is not None:
            raise known
        words = f"{host} answered {reply.status}{': ' + said if said else ''}"
        if reply.status in _PASSING:
            raise Unavailable(words, retry_after=pause_of(reply))
        if reply.status >= 500 or reply.status == 408:  # also from what stands in front of it, and has sent it on
            raise lost(words, retry_after=pause_of(reply))
        raise _PERMANENT.get(reply.status, Invalid)(words)

    def _words(self, reply: TrackerResponse) -> str:
        """Without what was sent to let us in, in whichever form: some show a request in their errors."""
        found = "; ".join(part for part in self._said(reply.content) if part)
        for one in self._hidden():
            found = found.replace(one, "***")
        return cleaned(found)

    def _hidden(self) -> list[str]:
        """The longest first: some are parts of others."""
        sent = [one.reveal() for one in (self._secret, *self._headers.values()) if isinstance(one, Secret)]
        return sorted({*sent, *(one.rpartition(" ")[2] for one in sent)} - {""}, key=len, reverse=True)


# Not done, and no fault of what was asked: somebody else at it, locked, too early, too much.
_PASSING = frozenset({409, 423, 425, 429})
_PERMANENT: Mapping[int, type[PosternError]] = {401: Denied, 403: Denied, 404: NotFound, 410: NotFound}


async def _answer(
    client: httpx.AsyncClient, request: httpx.Request, host: str, lost: type[Unavailable], hidden: Sequence[str]
) -> TrackerResponse:
    """Without `hidden` in it: what is in an answer becomes an issue's address, or the name of an asset."""
    answer = await client.send(request, stream=True, follow_redirects=False)
    try:
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise lost(f"{host} compressed its answer, which was not asked for")
        received = bytearray()
        async for chunk in answer.aiter_raw():
            received += chunk
            if len(received) > LIMIT:
                raise lost(f"the answer of {host} is larger than {LIMIT} bytes")
    finally:
        await answer.aclose()
    for one in hidden:
        if len(one) >= _HIDDEN:
            for form in (one, one.replace("/", "\\/")):
                received = received.replace(form.encode(), b"***")
    try:
        content = json.loads(received)
    except (ValueError, RecursionError):
        content = None
    return TrackerResponse(answer.status_code, answer.headers, content)


def checked_base(url: str) -> str:
    """Without its last slash. Raises Invalid."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid("the address of the tracker cannot be read; check how it is written", field="url") from None
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))):
        raise Invalid("the address of the tracker must begin with https:// (http:// on loopback only)", field="url")
    odd = not url.isascii() or not url.isprintable() or " " in url
    if odd or parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid("the address of the tracker must be plain, without user, query, fragment or blank", field="url")
    return url.rstrip("/")


def segment(text: str, field: str) -> str:
    """As one part of a path, whatever it is. Raises Invalid for what is none."""
    if text in ("", ".", ".."):
        raise Invalid(f"{field}: {text!r} is nothing that the tracker could have", field=field)
    return quote(text, safe="")


def made(key: str, url: str) -> Issue:
    """What a tracker says that it made. Raises Uncertain for what cannot be kept, or does things to terminals."""
    if len(key) > MAX_KEY or len(url) > MAX_URL or not (key + url).isprintable():
        raise Uncertain("the tracker answered with a key or an address of the issue that is too long or has controls")
    return Issue(key, url)


def require_its(issue: Issue, is_its: bool) -> None:
    """An issue is asked of the tracker that made it: in another one its key is somebody else's. Raises Invalid."""
    if not is_its:
        raise Invalid(cleaned(f"{issue.key} is not in this tracker, but at {issue.url}; it stays as it is there"))


def pause_of(reply: TrackerResponse) -> int | None:
    """Seconds that it asks us to wait, of either form of Retry-After (RFC 9110, 10.2.3)."""
    given = reply.headers.get("Retry-After", "").strip()
    if given.isascii() and given.isdigit():
        return min(int(given[:9]), MAX_PAUSE)
    try:
        until = parsedate_to_datetime(given)
    except (ValueError, TypeError):
        return None
    left = (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)
    return min(max(round(left.total_seconds()), 1), MAX_PAUSE)


def cleaned(words: str, most: int = MAX_MESSAGE) -> str:
    """One line, without what does things to terminals."""
    line = " ".join("".join(one if one.isprintable() else " " for one in words[: most * 4]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def text(content: Any, name: str) -> str:
    """That text of an object; "" when it has none."""
    found = content.get(name) if isinstance(content, dict) else None
    return found if isinstance(found, str) else ""


def mapping(content: Any, name: str) -> Mapping[str, Any]:
    found = content.get(name) if isinstance(content, dict) else None
    return found if isinstance(found, dict) else {}


def rows(content: Any, name: str | None = None) -> list[Mapping[str, Any]]:
    """The objects in that list of an object; without a name, in the list itself."""
    found = content if name is None else content.get(name) if isinstance(content, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
