"""The gateway's own host key, which is created once because clients store it.

A new key looks like an attack to every client. So a key file that cannot be read is an error, and is never replaced.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.settings import Settings


@dataclass(frozen=True, slots=True)
class GatewayHostKey:
    """The host key. `private` is PEM text in OpenSSH's form, `public` the line for known_hosts without a host."""

    private: Secret
    public: str


def host_key_file(settings: Settings) -> Path:
    """Return the path of the gateway's host key."""
    return settings.home / "keys" / "ssh_host_ed25519.key"


def ensure_host_key(file: Path) -> GatewayHostKey:
    """Read the host key, or create it (Ed25519, 0600). Of several concurrent processes, the first one creates it.

    Raises Misconfigured for a file that cannot be used.
    """
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(file)
    try:
        data = file.read_bytes()
        key = serialization.load_ssh_private_key(data, password=None)
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(
            f"the SSH host key {file} cannot be used ({type(error).__name__}); put it back from your backup, or remove "
            "it to create a new one; all SSH clients must then accept the new key"
        ) from None
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return GatewayHostKey(Secret(data.decode()), public.decode())


def _make(file: Path) -> None:
    """Write the file atomically, and never replace one."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    draft = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(pem)
        stream.flush()
        os.fsync(descriptor)
    with suppress(FileExistsError):
        os.link(draft, file)
    draft.unlink()
