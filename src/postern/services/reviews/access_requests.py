"""Access requested ahead of time: the review that a connection will need, before a client connects.

The review is the one that a waiting client would request, bound to the same things: the principal, the connection and
its target, the client's address, and the login. A client that connects by the same login from the same address is
admitted at once; any other one needs a review of its own.
"""

from __future__ import annotations

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Review
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import SSH, Connection
from postern.errors import Invalid
from postern.services.admission import Access
from postern.services.reviews.review_requests import ReviewRequests, ReviewRequired
from postern.services.reviews.reviews import Reviews


class AccessRequests:
    def __init__(self, access: Access, asking: ReviewRequests, reviews: Reviews) -> None:
        self._access = access
        self._asking = asking
        self._reviews = reviews

    async def request(
        self,
        principal: Principal,
        connection: str,
        *,
        source: str,
        means: str,
        reason: str = "",
        duration: int | None = None,
    ) -> Review | None:
        """Request access to a connection, by name or id; `duration` is in seconds.

        Returns the review that waits now, or the one that waits or was approved already; None where no approval is
        required. Raises NotFound, Denied, TooMany, and Invalid where access cannot be requested ahead of time.
        """
        try:
            permit = await self._access.admit_principal(
                principal, connection, verb=Verb.CONNECT, source=source, means=means
            )
        except ReviewRequired as required:
            _require_bindable(required.requested_access.connection)
            return await self._asking.ask(required.requested_access, reason=reason, duration=duration)
        if permit.review_id is None:
            return None
        return await self._reviews.get(principal, str(permit.review_id))


def _require_bindable(connection: Connection) -> None:
    """Reject SSH connections: SSH clients log in by a key or credential, to which this review would not be bound."""
    if connection.subtype == SSH:
        raise Invalid(
            f"connection: {connection.name!r} is reached by SSH, whose clients log in by a key; `ssh` asks for the "
            "review itself when it connects, and waits",
            field="connection",
        )
