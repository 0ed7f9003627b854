"""Access asked for ahead of time: the review that a connection will need, before anybody connects.

The review is the one that a waiting client would ask for, bound to the same things: who asks, the connection and where
it leads, the address of the machine, and the login. A client that connects by the same login from the same address goes
through at once; any other one asks for a review of its own.
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
        """Ask for access to a connection, by name or id; `duration` is in seconds.

        Returns the review that waits from now on, or the one that waits or holds already; None where nobody has to
        agree. Raises NotFound, Denied, TooMany, and Invalid where access cannot be asked for ahead of time.
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
    """SSH clients log in by a key or a credential of their own, to which this review would not be bound."""
    if connection.subtype == SSH:
        raise Invalid(
            f"connection: {connection.name!r} is reached by SSH, whose clients log in by a key; `ssh` asks for the "
            "review itself when it connects, and waits",
            field="connection",
        )
