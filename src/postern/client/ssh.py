"""The ssh command that reaches a connection, ready to paste."""

from __future__ import annotations

import shlex


def ssh_line(user: str, host: str, port: int) -> str:
    """Quoted for a shell. `user` is that of a credential, or PERSON#CONNECTION for who logs in by a key."""
    return shlex.join(["ssh", "-p", str(port), f"{user}@{host}"])
