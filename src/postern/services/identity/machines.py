"""Machine identities: programs that use connections with a native client, by credentials that are rotated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.identity.credential import Credential, Issued
from postern.domain.identity.machine import MachineIdentity
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.lists import Listed, Page
from postern.domain.resource_names import as_identifier
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Invalid, NotFound
from postern.services.identity.credentials import Credentials
from postern.services.identity.users import require_admin, require_reader
from postern.services.named_resources import ResourceService
from postern.services.server.audit_context import record_change as note
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import MachineStore

MAX_OVERLAP = timedelta(days=7)
MAX_CONNECTIONS, MAX_ATTRIBUTES, MAX_TEXT = 50, 50, 1_000
_NAME = re.compile(r"[A-Za-z0-9_](?:[-.]?[A-Za-z0-9_]){1,127}")


class Machines(ResourceService[MachineIdentity]):
    """Requests give the fields of an identity. `connection_names` lead to credentials.

    An added connection gets a credential that lives for `access_duration_seconds`; the credential for a removed one
    ends. A replacement without `connection_names` keeps them, so that an omitted field ends no password in use. The
    name never changes.
    """

    noun = "machine identity"
    preserved_fields = frozenset({"principal", "connection_names"})

    def __init__(self, store: MachineStore, credentials: Credentials, signals: Signals, now: Clock) -> None:
        super().__init__(store, signals, now)
        self._machines = store
        self._credentials = credentials

    def blank(self, key: UUID, org_id: UUID) -> MachineIdentity:
        return MachineIdentity(Principal(key, org_id, str(key), email="", name="", kind=PrincipalKind.MACHINE))

    def check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name) or as_identifier(name) is not None:
            raise Invalid(
                "name: must have 2 to 128 letters, digits and underscores, with single dots or hyphens between, and "
                "must not look like an identifier",
                field="name",
            )

    async def resolve(self, current: MachineIdentity, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        resolved = {name: value for name, value in fields.items() if name != "name"}
        if "name" in fields:
            resolved["principal"] = replace(current.principal, name=fields["name"], email=fields["name"])
        if "connection_names" in fields:
            seconds = fields.get("access_duration_seconds")
            resolved["connection_names"] = await self._check_connections(current, fields["connection_names"], seconds)
        return resolved

    async def check(self, resource: MachineIdentity) -> None:
        if len(resource.description) > MAX_TEXT:
            raise Invalid(f"description: at most {MAX_TEXT} characters", field="description")
        attributes = resource.attributes
        if len(attributes) > MAX_ATTRIBUTES or any(
            not 1 <= len(key) <= 128 or len(value) > MAX_TEXT for key, value in attributes.items()
        ):
            raise Invalid(
                f"attributes: at most {MAX_ATTRIBUTES}, with keys of 1 to 128 and values of at most {MAX_TEXT} "
                "characters",
                field="attributes",
            )

    async def announce(self, before: MachineIdentity | None, after: MachineIdentity | None) -> None:
        """End what a deleted identity runs."""
        if before is not None and after is None:
            await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(before.id))

    async def find(self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES) -> Listed[MachineIdentity]:
        listed = await super().find(principal, page, where)
        return Listed(await self._with_connections(listed.items), listed.total)

    async def existing(self, principal: Principal, name_or_id: str) -> MachineIdentity:
        return (await self._with_connections([await super().existing(principal, name_or_id)]))[0]

    async def _with_connections(self, machines: Sequence[MachineIdentity]) -> list[MachineIdentity]:
        names = await self._machines.connections_of([machine.id for machine in machines], self._now())
        return [replace(machine, connection_names=names[machine.id]) for machine in machines]

    async def authorized_write(
        self, principal: Principal, before: MachineIdentity | None, after: MachineIdentity
    ) -> MachineIdentity:
        """Return the identity with its new credentials.

        The row is written first: of two concurrent changes, the one that is rejected issues and ends no credential.
        """
        old_names, new_names = before.connection_names if before else (), after.connection_names
        added, seconds = [name for name in new_names if name not in old_names], after.access_duration_seconds
        written = await super().authorized_write(principal, before, after)
        try:
            issued = [
                await self._credentials.issue(written.principal, name, seconds, maker=principal) for name in added
            ]
        except BaseException:
            if before is None:  # its credentials were not returned, so it is of no use
                await self._store.remove(written)
            raise
        for credential, connection in await self._live(written):
            if connection not in new_names:
                await self._credentials.retire(credential, timedelta(0))
        identity = await self.existing(principal, str(written.id))
        note(before, identity)
        return replace(identity, issued=tuple(issued))

    async def credentials(self, principal: Principal, name: str) -> list[tuple[Credential, str]]:
        """Return credentials with the names of their connections, never a secret; newest first. Raises Denied,
        NotFound."""
        require_reader(principal, "machine identities")
        return await self._credentials.of_principal((await self.existing(principal, name)).principal)

    async def rotate(
        self, principal: Principal, name: str, connection: str, *, overlap: int, seconds: int | None
    ) -> Issued:
        """Issue a new credential; the old ones stay valid for `overlap` more seconds.

        Raises Denied, NotFound when it has none for this connection, Invalid.
        """
        require_admin(principal, "rotate credentials")
        if not 0 <= overlap <= MAX_OVERLAP.total_seconds():
            longest = int(MAX_OVERLAP.total_seconds())
            raise Invalid(
                f"overlap_seconds: must be 0 to {longest} ({duration_text(longest)})", field="overlap_seconds"
            )
        machine = await self.existing(principal, name)
        target = await self._credentials.check(machine.principal, connection, seconds)
        there = await self._credentials.of_principal(machine.principal)
        if not any(name == target.name and live_credential.revoked_at is None for live_credential, name in there):
            raise NotFound(
                f"machine identity {name!r} has no credential for connection {target.name!r}; "
                "add the connection to its connection_names"
            )
        before = [live_credential for live_credential, name in await self._live(machine) if name == target.name]
        issued = await self._credentials.issue(machine.principal, target.name, seconds, maker=principal)
        for credential in before:
            await self._credentials.retire(credential, timedelta(seconds=overlap))
        note(None, issued.credential)
        return issued

    async def _live(self, machine: MachineIdentity) -> list[tuple[Credential, str]]:
        now = self._now()
        there = await self._credentials.of_principal(machine.principal)
        return [(credential, connection) for credential, connection in there if credential.is_active(now)]

    async def _check_connections(
        self, machine: MachineIdentity, requested_names: Sequence[str], seconds: int | None
    ) -> tuple[str, ...]:
        """Return the names of the connections, each once. Raises as `Credentials.issue` for new ones."""
        if len(requested_names) > MAX_CONNECTIONS:
            raise Invalid(f"connection_names: at most {MAX_CONNECTIONS}", field="connection_names")
        current_names = machine.connection_names
        try:
            names = [
                name
                if name in current_names
                else (await self._credentials.check(machine.principal, name, seconds)).name
                for name in requested_names
            ]
        except NotFound as error:
            raise Invalid(f"connection_names: {error.message}", field="connection_names") from None
        return tuple(dict.fromkeys(names))
