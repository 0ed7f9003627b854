"""The gateway's own key as an SSH server: made once, and kept, since clients remember it.

A new key looks to every client like somebody in between; so one that is there and cannot be read is told, and never
replaced.
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


@dataclass(frozen=True, slots=True)
class HostKey:
    """`private` is PEM text in OpenSSH's form, `public` the line for known_hosts without a host."""

    private: Secret
    public: str


def ensure(file: Path) -> HostKey:
    """Finds or makes it (Ed25519, 0600). Several processes may ask at once: the first one's stays.

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
            "it for a new one, which all SSH clients must be told of"
        ) from None
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return HostKey(Secret(data.decode()), public.decode())


def _make(file: Path) -> None:
    """Whole or not at all, and never in the place of another."""
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
