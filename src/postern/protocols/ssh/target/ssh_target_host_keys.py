"""Verification of a server's host key: it is configured, pinned, or accepted on first use.

HOST_KEYS is set           only those, or certificates of its @cert-authority lines
Start.host_keys not empty  only those, which were pinned
Start.host_keys empty      any key, which is reported so that it is pinned
Start.host_keys None       none, because the key would not be stored
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import asyncssh

from postern.errors import Unavailable
from postern.protocols.ssh.target.ssh_access import SshTargetAccess

PLAIN = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_CERTIFIED = tuple(f"{name}-cert-v01@openssh.com" for name in PLAIN)
_KEY_TYPES = frozenset({"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"})
_AUTHORITY = "@cert-authority"
_DEFAULT_PORT = 22


@dataclass(frozen=True, slots=True)
class AcceptedHostKeys:
    """The accepted keys. `first_use`: any key is accepted."""

    keys: tuple[asyncssh.SSHKey, ...] = ()
    authorities: tuple[asyncssh.SSHKey, ...] = ()
    revoked: tuple[asyncssh.SSHKey, ...] = ()
    first_use: bool = False
    configured: bool = False

    def takes(self, key: asyncssh.SSHKey) -> bool:
        """Return True if a connection to a server that presented this key can still be used. A certificate was verified
        when it was presented."""
        return key not in self.revoked and (self.first_use or bool(self.authorities) or key in self.keys)

    def behind(self, key: asyncssh.SSHKey) -> AcceptedHostKeys:
        """Return the accepted keys of a further connection to a server that presented this key."""
        return replace(self, keys=(key,), first_use=False) if self.first_use else self

    @property
    def algorithms(self) -> list[str]:
        """Return the algorithms of known keys first, so that a server with several presents one of them; then all
        others, so that an error can name the key that it presents."""
        signature_algorithms = {name.decode() for key in self.keys for name in key.sig_algorithms}
        plain = sorted(PLAIN, key=lambda name: name not in signature_algorithms)
        return [*(_CERTIFIED if self.authorities else ()), *plain]

    def refusal(self, access: SshTargetAccess, met: asyncssh.SSHKey) -> Unavailable:
        fingerprints = ", ".join(map(fingerprint, (*self.keys, *self.authorities)))
        if met in self.revoked:
            why, then = "which HOST_KEYS says is revoked", "The server needs a new key"
        elif self.configured:
            why = f"but its secret HOST_KEYS has {fingerprints or 'no key for that address'}"
            then = "If the server was given a new key on purpose, an administrator must put it into HOST_KEYS"
        else:
            why = f"but {fingerprints} was pinned at the first connection"
            forget = f"postern connections host-keys {access.connection} --forget"
            then = f"If the server was given a new key on purpose, an administrator must run: {forget}"
        return Unavailable(
            f"connection {access.connection!r}: the server at {access.place} presented the host key "
            f"{fingerprint(met)}, {why}. The gateway did not log in. {then}. If not, another server may have "
            "taken its place"
        )


def fingerprint(key: asyncssh.SSHKey) -> str:
    """Return the fingerprint as `ssh-keygen -l` prints it, with the key's kind."""
    return f"{key.get_fingerprint()} ({key.algorithm.decode()})"


def one_line(key: asyncssh.SSHKey) -> str:
    """Return OpenSSH's form, without a comment."""
    return " ".join(key.export_public_key().decode().split()[:2])


def accepted_host_keys(access: SshTargetAccess, pinned: Sequence[str] | None) -> AcceptedHostKeys:
    """Return the accepted keys. Raises Unavailable."""
    if access.host_keys.strip():
        return _read_configured_keys(access)
    if pinned is None:
        raise Unavailable(
            f"connection {access.connection!r}: the host key of its server is unknown, and this gateway does not "
            "store host keys; an administrator must set the secret HOST_KEYS"
        )
    try:
        keys = tuple(map(asyncssh.import_public_key, pinned))
    except (asyncssh.KeyImportError, ValueError):
        raise Unavailable(f"connection {access.connection!r}: its pinned host key is not valid") from None
    return AcceptedHostKeys(keys=keys, first_use=not keys)


def _read_configured_keys(access: SshTargetAccess) -> AcceptedHostKeys:
    lines = []
    for number, line in enumerate(access.host_keys.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            lines.append(_to_known_hosts_line(words))
        except (asyncssh.KeyImportError, ValueError):
            raise Unavailable(
                f"connection {access.connection!r}: line {number} of its secret HOST_KEYS is neither a public key nor "
                "a line of known_hosts"
            ) from None
    try:
        port = None if access.port == _DEFAULT_PORT else access.port
        keys, authorities, revoked, *_ = asyncssh.import_known_hosts("\n".join(lines)).match(access.host, "", port)
    except ValueError:
        raise Unavailable(f"connection {access.connection!r}: its secret HOST_KEYS cannot be read") from None
    if not keys and not authorities:
        raise Unavailable(
            f"connection {access.connection!r}: its secret HOST_KEYS has no key for {access.place}; an administrator "
            "must add it"
        )
    return AcceptedHostKeys(tuple(keys), tuple(authorities), tuple(revoked), configured=True)


def _to_known_hosts_line(words: list[str]) -> str:
    """Return the line in the format of known_hosts: a bare key applies to any host. Raises KeyImportError,
    ValueError."""
    marker = [words.pop(0)] if words[0].startswith("@") else []
    if words and words[0] in _KEY_TYPES:
        words.insert(0, "*")
    if marker not in ([], [_AUTHORITY], ["@revoked"]) or len(words) < 3:
        raise ValueError("not a line of known_hosts")
    asyncssh.import_public_key(" ".join(words[1:3]))
    return " ".join([*marker, *words[:3]])
