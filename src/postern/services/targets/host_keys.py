"""Host keys of SSH targets: the first key of a target is pinned, and any other is denied afterwards."""

from __future__ import annotations

from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.identity.ssh_key import PublicKey, public_key
from postern.domain.targets.connection import Connection
from postern.domain.targets.host_key import HostKey
from postern.errors import Conflict, Denied, NotFound
from postern.services.identity.users import require_admin, require_reader
from postern.services.rules.access_control import AccessControl
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock
from postern.store.ports.ssh_ports import HostKeyStore


class HostKeys:
    def __init__(self, store: HostKeyStore, control: AccessControl, now: Clock) -> None:
        self._store = store
        self._control = control
        self._now = now

    async def find_known(self, connection: Connection) -> tuple[str, ...]:
        """Return the pinned key in OpenSSH's form; none until the first session to the connection's present target."""
        key = await self._find_pinned(connection)
        return () if key is None else (key.key.text,)

    async def pin(self, connection: Connection, key: str, session_id: UUID) -> None:
        """Pin the key that a session received, in OpenSSH's form. The first of concurrent ones wins.

        Raises Denied when a different one is pinned, Conflict when the connection's target has changed, Invalid.
        """
        if connection.place is None:
            raise Conflict(f"connection {connection.name!r} has no known target; save it again")
        met = public_key(key, "host_key")
        host_key = HostKey(connection.id, connection.org_id, connection.place, met, self._now(), session_id)
        pinned = await self._find_pinned(connection) or await self._store.pin(host_key)
        if pinned.key.text != met.text:
            raise _changed_key_error(connection, pinned, met)

    async def find(self, principal: Principal, connection: str) -> tuple[Connection, list[HostKey]]:
        """Return the pinned key, for administrators and auditors. Raises Denied, NotFound."""
        require_reader(principal, "the host keys of targets")
        target = await self._connection(principal, connection)
        key = await self._find_pinned(target)
        return target, [] if key is None else [key]

    async def forget(self, principal: Principal, connection: str) -> None:
        """Remove the pinned key, so that the next one is pinned. Running sessions continue. Raises Denied, NotFound."""
        require_admin(principal, "forget host keys")
        target, keys = await self.find(principal, connection)
        await self._store.forget(target.id)
        record_change({"fingerprints": [_describe_key(key) for key in keys]}, {"fingerprints": []})

    async def _find_pinned(self, connection: Connection) -> HostKey | None:
        return None if connection.place is None else await self._store.get(connection.id, connection.place)

    async def _connection(self, principal: Principal, name_or_id: str) -> Connection:
        connection = await self._control.find(principal, name_or_id)
        if connection is None:
            raise NotFound(f"there is no connection {name_or_id!r}")
        return connection


def _changed_key_error(connection: Connection, pinned: HostKey, met: PublicKey) -> Denied:
    since = pinned.pinned_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Denied(
        f"the target of connection {connection.name!r} has a different host key than before: the connection may be "
        f"intercepted, or the target was reinstalled. Pinned since {since}: {pinned.key.algorithm} "
        f"{pinned.key.fingerprint}; received now: {met.algorithm} {met.fingerprint}. If the new key is correct, an "
        f"administrator can run: postern connections host-keys {connection.name} --forget"
    )


def _describe_key(key: HostKey) -> str:
    return f"{key.key.algorithm} {key.key.fingerprint}"
