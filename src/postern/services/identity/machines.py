"""Machine identities: programs that reach connections with a native client, by credentials that are rotated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import uuid4

from postern.domain.identity.credential import Credential
from postern.domain.identity.machine import MachineIdentity
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.lists import Listed, Page
from postern.errors import Conflict, Invalid, NotFound
from postern.services.identity.credentials import Credentials, Issued
from postern.services.identity.users import require_admin, require_reader
from postern.services.server.trail import changed as note
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import MachineStore, PrincipalStore

MAX_OVERLAP = timedelta(days=7)
MAX_CONNECTIONS, MAX_ATTRIBUTES, MAX_TEXT = 50, 50, 1_000
_NAME = re.compile(r"[A-Za-z0-9_](?:[-.]?[A-Za-z0-9_]){1,127}")


@dataclass(frozen=True, slots=True)
class MachineFields:
    """None leaves as it is, where there is something already. `seconds` is the life of new credentials."""

    description: str | None = None
    connection_names: tuple[str, ...] | None = None
    attributes: Mapping[str, str] | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class MachineChange:
    """`issued` has the passwords, which are seen this once."""

    machine: MachineIdentity
    issued: list[Issued]


class Machines:
    def __init__(
        self,
        store: MachineStore,
        principals: PrincipalStore,
        credentials: Credentials,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._store = store
        self._principals = principals
        self._credentials = credentials
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[MachineIdentity]:
        """By name. Raises Denied for all but admins and auditors."""
        require_reader(principal, "machine identities")
        return await self._store.find(principal.org_id, page, self._now())

    async def get(self, principal: Principal, name: str) -> MachineIdentity:
        """Raises Denied, NotFound."""
        require_reader(principal, "machine identities")
        return await self._get(principal, name)

    async def create(self, principal: Principal, name: str, fields: MachineFields) -> MachineChange:
        """With a credential for each connection, or not at all. Raises Denied, NotFound, Invalid, Conflict."""
        require_admin(principal, "change machine identities")
        if not _NAME.fullmatch(name):
            raise Invalid(
                "name: must have 2 to 128 letters, digits and underscores, with single dots or hyphens between",
                field="name",
            )
        key, now = uuid4(), self._now()
        acting = Principal(key, principal.org_id, str(key), name, name, kind=PrincipalKind.MACHINE)
        acting = replace(acting, role_groups=principal.role_groups)
        machine = MachineIdentity(acting, _text(fields.description or ""), now, now, _attributes(fields.attributes))
        wanted = await self._checked(acting, fields.connection_names or (), fields.seconds)
        try:
            await self._store.add(machine)
        except Conflict:
            raise Conflict(f"name: a principal is called {name!r} already", field="name") from None
        try:
            issued = await self._issue(principal, acting, wanted, fields.seconds)
        except BaseException:  # one without its credentials, which nobody has seen, is of no use
            await self._principals.remove(key)
            raise
        made = await self._get(principal, str(key))
        note(None, made)
        return MachineChange(made, issued)

    async def update(self, principal: Principal, name: str, fields: MachineFields) -> MachineChange:
        """Credentials for added connections; those for removed ones end at once.

        Raises Denied, NotFound, Invalid.
        """
        require_admin(principal, "change machine identities")
        machine = await self._get(principal, name)
        changed = replace(
            machine,
            description=machine.description if fields.description is None else _text(fields.description),
            attributes=machine.attributes if fields.attributes is None else _attributes(fields.attributes),
            updated_at=self._now(),
        )
        held = set(machine.connection_names)
        kept = held if fields.connection_names is None else set(fields.connection_names)
        added = await self._checked(machine.principal, sorted(kept - held), fields.seconds)
        await self._store.update(changed)
        issued = await self._issue(principal, machine.principal, added, fields.seconds)
        for credential, connection in await self._live(machine):
            if connection not in kept | set(added):
                await self._credentials.retire(credential, timedelta(0))
        updated = await self._get(principal, machine.principal.subject)
        note(machine, updated)
        return MachineChange(updated, issued)

    async def remove(self, principal: Principal, name: str) -> None:
        """With its credentials; what it runs ends at once. Raises Denied, NotFound."""
        require_admin(principal, "delete machine identities")
        machine = await self._get(principal, name)
        await self._principals.remove(machine.principal.id)
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(machine.principal.id))
        note(machine, None)

    async def credentials(self, principal: Principal, name: str) -> list[tuple[Credential, str]]:
        """With the names of their connections, never a secret; newest first. Raises Denied, NotFound."""
        require_reader(principal, "machine identities")
        return await self._credentials.of_principal((await self._get(principal, name)).principal)

    async def rotate(
        self, principal: Principal, name: str, connection: str, *, overlap: int, seconds: int | None
    ) -> Issued:
        """A new credential; the old ones are good for `overlap` more seconds.

        Raises Denied, NotFound when it has none for this connection, Invalid.
        """
        require_admin(principal, "rotate credentials")
        if not 0 <= overlap <= MAX_OVERLAP.total_seconds():
            raise Invalid(f"overlap_seconds: must be 0 to {int(MAX_OVERLAP.total_seconds())}", field="overlap_seconds")
        machine = await self._get(principal, name)
        target = await self._credentials.check(machine.principal, connection, seconds)
        there = await self._credentials.of_principal(machine.principal)
        if not any(name == target.name and one.revoked_at is None for one, name in there):
            raise NotFound(
                f"machine identity {name!r} has no credential for connection {target.name!r}; "
                "add the connection to its connection_names"
            )
        before = [one for one, name in await self._live(machine) if name == target.name]
        issued = await self._credentials.issue(machine.principal, target.name, seconds, maker=principal)
        for credential in before:
            await self._credentials.retire(credential, timedelta(seconds=overlap))
        note(None, issued.credential)
        return issued

    async def _get(self, principal: Principal, name: str) -> MachineIdentity:
        found = await self._store.get(principal.org_id, name, self._now())
        if found is None:
            raise NotFound(f"there is no machine identity {name!r}")
        return found

    async def _live(self, machine: MachineIdentity) -> list[tuple[Credential, str]]:
        now = self._now()
        there = await self._credentials.of_principal(machine.principal)
        return [(one, connection) for one, connection in there if one.is_active(now)]

    async def _checked(
        self, machine: Principal, connections: tuple[str, ...] | list[str], seconds: int | None
    ) -> list[str]:
        """The names of the connections, each once. Raises as `Credentials.issue`."""
        if len(connections) > MAX_CONNECTIONS:
            raise Invalid(f"connection_names: at most {MAX_CONNECTIONS}", field="connection_names")
        try:
            found = [(await self._credentials.check(machine, one, seconds)).name for one in connections]
        except NotFound as error:
            raise Invalid(f"connection_names: {error.message}", field="connection_names") from None
        return list(dict.fromkeys(found))

    async def _issue(
        self, maker: Principal, machine: Principal, connections: list[str], seconds: int | None
    ) -> list[Issued]:
        return [await self._credentials.issue(machine, one, seconds, maker=maker) for one in connections]


def _text(description: str) -> str:
    if len(description) > MAX_TEXT:
        raise Invalid(f"description: at most {MAX_TEXT} characters", field="description")
    return description


def _attributes(given: Mapping[str, str] | None) -> Mapping[str, str]:
    attributes = given or {}
    if len(attributes) > MAX_ATTRIBUTES or any(
        not 1 <= len(key) <= 128 or len(value) > MAX_TEXT for key, value in attributes.items()
    ):
        raise Invalid(
            f"attributes: at most {MAX_ATTRIBUTES}, with keys of 1 to 128 and values of at most {MAX_TEXT} characters",
            field="attributes",
        )
    return attributes
