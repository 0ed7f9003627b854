"""Checks for commands that work on the store beside the gateway: the data folder must be a gateway's, and belong to
this user."""

from __future__ import annotations

import os

from postern.errors import Denied, NotFound
from postern.settings import Settings
from postern.wiring import paths


def require_own_gateway(settings: Settings) -> None:
    """Check the data folder: a store that such a command created, or files that the gateway cannot open, are useless.

    Raises NotFound, Denied.
    """
    marks = (paths.store(settings), paths.encryption_key(settings), paths.lock(settings))
    try:
        owner = settings.home.stat().st_uid
        is_gateway = any(mark.exists() for mark in marks)
    except FileNotFoundError:
        is_gateway = False
    except OSError:
        raise Denied(f"{settings.home} cannot be opened: run this as the user that runs the gateway") from None
    if not is_gateway:
        raise NotFound(
            f"no gateway has been started with the data folder {settings.home} yet; choose a different one with --home"
        )
    if owner != os.geteuid():
        raise Denied(f"{settings.home} belongs to a different user: run this as the user that runs the gateway")
