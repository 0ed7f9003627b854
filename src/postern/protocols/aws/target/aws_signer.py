"""Signing of requests at the agent, with the identity of a connection's secret.

AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY[, AWS_SESSION_TOKEN]     keys
AWS_ACCESS_KEY_ID=_identity:aws:                                  the agent's own identity
AWS_ROLE_ARN[, AWS_EXTERNAL_ID]                                   a role that either of them assumes
AWS_REGION, AWS_ENDPOINT_URL                                      where the target is
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import NO_SECRET, Secret
from postern.errors import Invalid, PosternError, Unavailable
from postern.integrations.secrets.source import DEADLINE, Threads
from postern.protocols.aws.aws_endpoints import check_endpoint, endpoint_of, region_of
from postern.protocols.aws.sigv4 import AwsCredentials, SigningKeys, sign_request
from postern.protocols.http.http_heads import RequestHead
from postern.relay.orders import Order

log = logging.getLogger(__name__)

_MAX_IDENTITIES: Final = 256  # whose keys are remembered
_LIBRARY: Final = "this needs the library botocore where the agent runs; run there: pip install boto3"


@dataclass(frozen=True, slots=True)
class AwsService:
    """A service: how its host name begins, and the name that requests are signed for."""

    prefix: str
    signing_name: str


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class CurrentKeys:
    """Credentials as they are now; see `AwsKeys`."""

    credentials: AwsCredentials
    renew_at: datetime | None = None
    expires_at: datetime | None = None


class KeySource:
    """Keys that are renewed before they expire. One request renews them for all callers.

    `fetch` blocks, and raises Unavailable. If renewing fails, the keys are used until they expire.
    """

    def __init__(self, fetch: Callable[[datetime], CurrentKeys], threads: Threads, now: Callable[[], datetime]) -> None:
        self._fetch = fetch
        self._threads = threads
        self._now = now
        self._keys: CurrentKeys | None = None
        self._renewing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def renew_soon(self) -> None:
        """Renew the keys in the background if it is time: those that there are can still be used."""
        if self._is_due() and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._renew_quietly())

    async def _renew_quietly(self) -> None:
        try:
            await self.renew()
        except PosternError as error:
            log.warning("%s", error.message)

    async def renew(self) -> None:
        """Renew the keys if it is time. Raises Unavailable if there are none to use."""
        if not self._is_due():
            return
        async with self._renewing:
            if not self._is_due():
                return
            try:
                async with asyncio.timeout(DEADLINE):
                    self._keys = await self._threads.run(lambda: self._fetch(self._now()))
            except (PosternError, TimeoutError) as error:
                reason = error.message if isinstance(error, PosternError) else "there was no answer in time"
                if self._usable() is None:
                    raise Unavailable(f"no AWS credentials: {reason}") from None
                log.warning("AWS credentials could not be renewed: %s", reason)

    def current(self) -> AwsCredentials:
        """Return the credentials. Raises Unavailable if they have expired."""
        keys = self._usable()
        if keys is None:
            raise Unavailable("the AWS credentials of the target have expired, and could not be renewed")
        return keys.credentials

    def _usable(self) -> CurrentKeys | None:
        keys = self._keys
        return keys if keys is not None and (keys.expires_at is None or self._now() < keys.expires_at) else None

    def _is_due(self) -> bool:
        keys = self._keys
        return keys is None or (keys.renew_at is not None and self._now() >= keys.renew_at)


class AwsSigner:
    """The `RequestSigner` of one session. `prepare` is awaited once. `sign` waits for nothing, and renews credentials
    in the background.

    `service_of` returns the service of a request: several can be behind one connection.
    """

    def __init__(
        self,
        source: KeySource,
        *,
        region: str,
        endpoint: str,
        service_of: Callable[[RequestHead], AwsService],
        keys: SigningKeys,
        now: Callable[[], datetime],
    ) -> None:
        self._source = source
        self._region = region
        self._endpoint = endpoint
        self._service_of = service_of
        self._keys = keys
        self._now = now

    async def prepare(self) -> None:
        """Renew the credentials if it is time. Raises Unavailable."""
        await self._source.renew()

    def endpoint(self, head: RequestHead) -> str:
        """Return the address that a request is for: `https://logs.eu-central-1.amazonaws.com`."""
        return self._endpoint or endpoint_of(self._service_of(head).prefix, self._region)

    def sign(self, head: RequestHead) -> RequestHead:
        """Return the request, signed for the target instead of by the client. Its authority is the endpoint's. Raises
        Unavailable."""
        self._source.renew_soon()
        authority = urlsplit(self.endpoint(head)).netloc
        if head.authority != authority:
            head = RequestHead(
                *(head.method, head.target, authority, head.headers, head.length, head.upgrade, head.digest)
            )
        return sign_request(
            head,
            self._source.current(),
            region=self._region,
            service=self._service_of(head).signing_name,
            now=self._now(),
            keys=self._keys,
        )


class AwsSigners:
    """Makes the signers of sessions. Keys of roles and of the agent's identity are shared between them."""

    def __init__(
        self, service_of: Callable[[RequestHead], AwsService], *, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._service_of = service_of
        self._now = now
        self._keys = SigningKeys()
        self._threads = Threads(most=1)  # of botocore's session
        self._identity: object = None
        self._sources: dict[tuple[Secret | str, ...], KeySource] = {}

    def of(self, order: Order, secrets: ResolvedSecrets) -> AwsSigner:
        """Return the signer of a session. Raises Unavailable if the connection's secret cannot be used."""
        values = {name: value.reveal() for name, value in secrets.values.items()}
        try:
            region = region_of(values)
            endpoint = check_endpoint(values["AWS_ENDPOINT_URL"]) if values.get("AWS_ENDPOINT_URL") else ""
        except Invalid as problem:
            raise Unavailable(f"connection {order.connection!r}: {problem.message}") from None
        source = self._source_of(order, secrets, values, region)
        return AwsSigner(
            source, region=region, endpoint=endpoint, service_of=self._service_of, keys=self._keys, now=self._now
        )

    def _source_of(self, order: Order, secrets: ResolvedSecrets, values: Mapping[str, str], region: str) -> KeySource:
        keys = _keys_of(order, secrets, values)
        role = values.get("AWS_ROLE_ARN", "")
        if keys is not None and not role:
            current = CurrentKeys(keys)
            return KeySource(lambda _: current, self._threads, self._now)
        session = order.user_email if role else ""
        name: tuple[Secret | str, ...] = (role, values.get("AWS_EXTERNAL_ID", ""), session, region)
        if keys is not None:
            name = (*name, keys.access_key, keys.secret_key, keys.session_token)
        source = self._sources.pop(name, None)
        if source is None:
            fetch = self._fetch_of(keys, role, values.get("AWS_EXTERNAL_ID", ""), session, region)
            source = KeySource(fetch, self._threads, self._now)
        self._sources[name] = source  # the last used one is the last
        while len(self._sources) > _MAX_IDENTITIES:
            del self._sources[next(iter(self._sources))]
        return source

    def _fetch_of(
        self, keys: AwsCredentials | None, role: str, external_id: str, user: str, region: str
    ) -> Callable[[datetime], CurrentKeys]:
        def fetch(now: datetime) -> CurrentKeys:
            try:
                from postern.integrations.secrets.aws_identity import (
                    AwsIdentityKeys,
                    AwsKeys,
                    AwsRole,
                    session_name_of,
                )
            except ImportError:
                raise Unavailable(_LIBRARY) from None
            if not isinstance(self._identity, AwsIdentityKeys):
                self._identity = AwsIdentityKeys()
            found = (
                self._identity.own(now)
                if keys is None
                else AwsKeys(keys.access_key, keys.secret_key, keys.session_token)
            )
            if role:
                found = self._identity.of_role(AwsRole(role, session_name_of(user), external_id), found, region)
            credentials = AwsCredentials(found.access_key, found.secret_key, found.session_token)
            return CurrentKeys(credentials, found.renew_at, found.expires_at)

        return fetch


def _keys_of(order: Order, secrets: ResolvedSecrets, values: Mapping[str, str]) -> AwsCredentials | None:
    """Return the connection's keys, or None where it uses the agent's identity. Raises Unavailable."""
    if secrets.identity == "aws":
        return None
    access_key, secret_key = values.get("AWS_ACCESS_KEY_ID", ""), values.get("AWS_SECRET_ACCESS_KEY", "")
    if not access_key or not secret_key:
        raise Unavailable(
            f"connection {order.connection!r} needs the secrets AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "AWS_ACCESS_KEY_ID=_identity:aws: for the agent's own identity; an administrator must set them"
        )
    if not (access_key.isascii() and access_key.isprintable()) or {",", "/", " "} & set(access_key):
        raise Unavailable(f"connection {order.connection!r}: secret AWS_ACCESS_KEY_ID is not an access key id")
    token = values.get("AWS_SESSION_TOKEN", "")
    return AwsCredentials(access_key, Secret(secret_key), Secret(token) if token else NO_SECRET)
