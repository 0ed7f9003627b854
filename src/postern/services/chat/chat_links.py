"""Links between chat accounts and users: a user proves a chat account with a code from the gateway.

Only the user can create the link. An administrator cannot, since they could then decide in another user's name. What
the chat says about a person, such as an e-mail address, proves nothing.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from uuid import UUID, uuid4

from postern.domain.chat import ChatLink
from postern.domain.identity.login import TokenPurpose
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.lists import Listed, Page
from postern.domain.secret import Secret
from postern.domain.sink import Sink
from postern.errors import Denied, NotFound, Unauthenticated
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.server.audit_context import record_change
from postern.store.ports.chat_ports import ChatStore
from postern.store.ports.common_ports import Clock
from postern.store.ports.identity_ports import PrincipalStore

CODE_LIFE = timedelta(minutes=10)


class ChatLinks:
    def __init__(
        self, store: ChatStore, principals: PrincipalStore, one_time_tokens: OneTimeTokens, now: Clock
    ) -> None:
        self._store = store
        self._principals = principals
        self._one_time_tokens = one_time_tokens
        self._now = now

    async def code(self, principal: Principal) -> Secret:
        """Return a one-time code to give in the chat within CODE_LIFE; earlier codes become invalid. Raises Denied."""
        if principal.kind is not PrincipalKind.USER:
            raise Denied("only users can decide in chats, so only users can link a chat account")
        await self._one_time_tokens.forget(TokenPurpose.CHAT_LINK, principal.id)
        payload = {"user_id": str(principal.id), "org_id": str(principal.org_id)}
        return await self._one_time_tokens.issue(TokenPurpose.CHAT_LINK, payload, CODE_LIFE)

    async def redeem(self, sink: Sink, chat_id: str, code: str) -> Principal:
        """Link the chat account to the user whose code it gave, and return the user. Raises Unauthenticated."""
        payload = await self._one_time_tokens.take(TokenPurpose.CHAT_LINK, Secret(code.strip()))
        principal = await self._active(sink.org_id, UUID(payload["user_id"]))
        if principal is None or payload["org_id"] != str(sink.org_id):
            raise Unauthenticated("this code does not belong to a reviewer in this organisation")
        realm = realm_of(sink)
        before = await self._store.link(sink.org_id, realm, chat_id)
        link = ChatLink(uuid4(), sink.org_id, realm, chat_id, principal.id, principal.email, self._now())
        await self._store.add_link(link)
        record_change(before and _audit_fields(before), _audit_fields(link))
        return principal

    async def find_principal(self, sink: Sink, chat_id: str) -> Principal | None:
        """Return the active user with this chat account; None where there is none."""
        link = await self._store.link(sink.org_id, realm_of(sink), chat_id)
        return None if link is None else await self._active(sink.org_id, link.principal_id)

    async def find(self, principal: Principal, page: Page) -> Listed[ChatLink]:
        """Return links, newest first; administrators and auditors see those of all users."""
        return await self._store.links(principal.org_id, None if principal.sees_all else principal.id, page)

    async def remove(self, principal: Principal, link_id: UUID) -> None:
        """Remove the caller's own link, or as an administrator any link. Raises NotFound."""
        owner = None if principal.is_admin else principal.id
        removed = await self._store.remove_link(principal.org_id, link_id, owner)
        if removed is None:
            raise NotFound(f"there is no chat account {link_id}, or it is not yours")
        record_change(_audit_fields(removed), None)

    async def _active(self, org_id: UUID, principal_id: UUID) -> Principal | None:
        account = await self._principals.get(org_id, principal_id)
        if account is None or not account.principal.is_active or account.principal.kind is not PrincipalKind.USER:
            return None
        return account.principal


def realm_of(sink: Sink) -> str:
    """Return the identity of the chat application, to which links are bound.

    It covers the signing secret: a sink with a secret of one's own choice is another realm, so it cannot decide for
    linked users. It covers the address: so is a sink that knows the secret but has forms sent elsewhere.
    """
    where = (sink.address, sink.authority)
    parts = (sink.options["team_id"], sink.options["app_id"], *where, sink.keys["signing_secret"].reveal())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _audit_fields(link: ChatLink) -> dict[str, object]:
    return {"id": link.id, "chat_id": link.chat_id, "user": link.email}
