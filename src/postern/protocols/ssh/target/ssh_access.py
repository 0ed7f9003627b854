"""A server's address and login, from the secrets of its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import asyncssh

from postern.agent import dialling
from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.relay.orders import Order

_KEYS = ("PRIVATE_KEY", "AUTHORIZED_SERVER_KEYS")
Keys = list[asyncssh.SSHKeyPair]


@dataclass(frozen=True, slots=True)
class SshTargetAccess:
    """The access data. `agent` is the socket of an ssh-agent on this machine, `public_key` the one of its keys to use.
    Missing values are empty."""

    connection: str
    host: str
    port: int
    user: str
    password: Secret
    key: Secret
    passphrase: Secret
    agent: str
    public_key: str
    host_keys: str

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"


def read(order: Order, values: Mapping[str, Secret]) -> SshTargetAccess:
    """Parse the secrets. Raises Unavailable."""
    connection, none = order.connection, Secret("")
    access = SshTargetAccess(
        connection=connection,
        host=dialling.required_secret(connection, values, "HOST").reveal(),
        port=dialling.port_of(connection, values, 22),
        user=dialling.required_secret(connection, values, "USER").reveal(),
        password=values.get("PASS", none),
        key=next((values[name] for name in _KEYS if values.get(name)), none),
        passphrase=values.get("PRIVATE_KEY_PASS", none),
        agent=dialling.text(values, "SSH_AUTH_SOCK"),
        public_key=dialling.text(values, "PUBLIC_KEY"),
        host_keys=dialling.text(values, "HOST_KEYS"),
    )
    if not (access.password or access.key or access.agent):
        raise Unavailable(
            f"connection {connection!r} has no credentials; an administrator must set one of the secrets PASS, "
            "PRIVATE_KEY and SSH_AUTH_SOCK"
        )
    return access


async def private_key(access: SshTargetAccess) -> asyncssh.SSHKey | None:
    """Return the private key. Call it in a thread, because passphrases are slow by design. Raises Unavailable, without
    a quote of the key."""
    if not access.key:
        return None
    where = f"connection {access.connection!r}: its secret PRIVATE_KEY"
    text, passphrase = access.key.reveal(), access.passphrase.reveal()
    try:
        return await asyncio.to_thread(asyncssh.import_private_key, text.strip() + "\n", passphrase)
    except asyncssh.KeyEncryptionError:
        reason = "cannot be opened with PRIVATE_KEY_PASS" if passphrase else "needs PRIVATE_KEY_PASS"
    except (asyncssh.KeyImportError, ValueError):
        reason = "is not a private key that can be read"
    raise Unavailable(f"{where} {reason}") from None


async def agent_keys(access: SshTargetAccess, agent: asyncssh.SSHAgentClient) -> Keys:
    """Return the ssh-agent's keys for this connection. Raises Unavailable."""
    where = f"connection {access.connection!r}: the ssh-agent of its secret SSH_AUTH_SOCK"
    data = _public_key(access)
    try:
        pairs = await agent.get_keys([data] if data else None)
    except ValueError:
        raise Unavailable(f"{where} does not answer") from None
    if not pairs:
        raise Unavailable(f"{where} does not have the key of PUBLIC_KEY" if data else f"{where} holds no keys")
    return list(pairs)


def _public_key(access: SshTargetAccess) -> bytes:
    if not access.public_key:
        return b""
    try:
        return asyncssh.import_public_key(access.public_key).public_data
    except (asyncssh.KeyImportError, ValueError):
        raise Unavailable(f"connection {access.connection!r}: its secret PUBLIC_KEY is not a public key") from None
