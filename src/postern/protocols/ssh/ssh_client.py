"""The client of SSH, and its command line."""

from __future__ import annotations

import shlex
from typing import Final

from postern.protocols.clients import NativeClient, NativeCredential


def ssh_line(user: str, host: str, port: int) -> str:
    """Return a command, quoted for a shell. `user` is that of a credential, or USER#CONNECTION for a login by key."""
    return shlex.join(["ssh", "-p", str(port), f"{user}@{host}"])


def _line(credential: NativeCredential) -> str:
    return ssh_line(credential.user, credential.host, credential.port)


CLIENT: Final = NativeClient(
    names=("ssh",), package="openssh-client", elsewhere="openssh", shows_waiting=True, line=_line
)
