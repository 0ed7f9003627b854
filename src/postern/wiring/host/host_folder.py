"""For commands that work on the store beside the gateway: whether the data folder is a gateway's, and of this user."""

from __future__ import annotations

import os

from postern.errors import Denied, NotFound
from postern.settings import Settings
from postern.wiring import paths


def require_own_gateway(settings: Settings) -> None:
    """Neither a store that such a command made nor files that the gateway cannot open help anybody.

    Raises NotFound, Denied.
    """
    marks = (paths.store(settings), paths.encryption_key(settings), paths.lock(settings))
    try:
        owner = settings.home.stat().st_uid
        is_gateway = any(mark.exists() for mark in marks)
    except FileNotFoundError:
        is_gateway = False
    except OSError:
        raise Denied(f"{settings.home} is not open to you: run this as the user that runs the gateway") from None
    if not is_gateway:
        raise NotFound(f"no gateway was started with the data folder {settings.home} yet; name another by --home")
    if owner != os.geteuid():
        raise Denied(f"{settings.home} belongs to another user: run this as the user that runs the gateway")
