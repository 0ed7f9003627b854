"""Access requested ahead of time: the review that a connection will need, before a client connects.

The review is the one that a waiting client would request, bound to the same things: the principal, the connection and
its target, the client's address, and the login or one credential. A client that connects by the same one from the
same address is admitted at once; any other one needs a review of its own.
"""

from __future__ import annotations

from uuid import UUID

from postern.domain.identity.credential import Grant
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Review
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import SSH, Connection, Toggle
from postern.errors import Invalid, NotFound, Unauthenticated
from postern.services.admission import Access
from postern.services.reviews.review_requests import ReviewRequests, ReviewRequired
from postern.services.reviews.reviews import Reviews
from postern.store.ports.target_ports import CredentialStore


class AccessRequests:
    def __init__(self, access: Access, credentials: CredentialStore, asking: ReviewRequests, reviews: Reviews) -> None:
        self._access = access
        self._credentials = credentials
        self._asking = asking
        self._reviews = reviews

    async def request(
        self,
        principal: Principal,
        connection: str,
        *,
        source: str,
        means: str,
        credential_id: UUID | None = None,
        reason: str = "",
        duration: int | None = None,
        time_window: TimeWindow | None = None,
    ) -> Review | None:
        """Request access to a connection, by name or id; `duration` is in seconds. Reviewers can replace the
        `time_window`. With an own `credential_id`, the access is for that credential instead of the login.

        Returns the review that waits now, or the one that waits or was approved already; None where no approval is
        required. Raises NotFound, Denied, TooMany, and Invalid where access cannot be requested ahead of time.
        """
        try:
            permit = await self._admit(principal, connection, source, means, credential_id)
        except ReviewRequired as required:
            if credential_id is None:
                _require_bindable(required.requested_access.connection)
            return await self._asking.ask(
                required.requested_access, reason=reason, duration=duration, time_window=time_window
            )
        if permit.review_id is None:
            return None
        return await self._reviews.get(principal, str(permit.review_id))

    async def _admit(
        self, principal: Principal, connection: str, source: str, means: str, credential_id: UUID | None
    ) -> Permit:
        """Admit the principal in the same way as the client that will connect: by the login or the credential. Raises
        as `request`, and ReviewRequired."""
        if credential_id is None:
            return await self._access.admit_principal(
                principal, connection, verb=Verb.CONNECT, source=source, means=means
            )
        # One text for all that cannot be used here, so that it tells nothing about the credentials of others.
        missing = NotFound(f"connection {connection!r} has no credential {credential_id} of yours")
        grant = await self._find_own_grant(principal, credential_id)
        if grant is None or connection not in {grant.connection.name, str(grant.connection.id)}:
            raise missing
        try:
            return await self._access.admit(grant, source=source, modes=_any_open_mode(grant.connection))
        except Unauthenticated:  # the connection is hidden from them now
            raise missing from None

    async def _find_own_grant(self, principal: Principal, credential_id: UUID) -> Grant | None:
        """Return the credential as its client would log in with it; None unless it is the principal's own."""
        credential = await self._credentials.get(principal.org_id, credential_id)
        if credential is None or credential.user_id != principal.id:
            return None
        grant = await self._access.find_grant(credential.username)
        return grant if grant is not None and grant.credential_id == credential_id else None


def _any_open_mode(connection: Connection) -> tuple[Verb, ...]:
    """Return the access mode that a client will need: SSH clients can also use a connection for commands alone."""
    return (Verb.CONNECT,) if connection.access_mode_connect is Toggle.ENABLED else (Verb.EXEC,)


def _require_bindable(connection: Connection) -> None:
    """Reject SSH connections: SSH clients log in with a key or credential, to which this review would not be bound."""
    if connection.subtype == SSH:
        raise Invalid(
            f"connection: {connection.name!r} is an SSH connection, whose clients log in with a key; run `ssh`, which "
            "requests the review itself and waits, or name a credential of yours in credential_id",
            field="connection",
        )
