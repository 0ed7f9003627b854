"""A set-up link made on the gateway's own machine: for the first administrator, and for the day nobody gets in.

Whoever may read the data folder may do everything anyway; this needs no login.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace

from postern.domain.principal import Account
from postern.errors import Denied, NotFound
from postern.services.identity.accounts import FIRST_ADMIN
from postern.services.identity.setup_links import SetupLink
from postern.services.server.trail import follow
from postern.settings import Settings
from postern.store.signals import LocalSignals
from postern.wiring import paths
from postern.wiring.app import App, open_app


def make(
    settings: Settings, email: str | None, organisation: str | None, *, reset_second_factors: bool = False
) -> SetupLink:
    """For the first administrator without `email`. Raises NotFound, Invalid, Denied, Misconfigured, Unavailable."""
    _require_gateway(settings)
    return asyncio.run(_make(_as_it_runs(settings), email or FIRST_ADMIN, organisation, reset_second_factors))


def _require_gateway(settings: Settings) -> None:
    """Nothing is made in a folder that is not a gateway's, and nothing that belongs to another user than it does."""
    try:
        owner = settings.home.stat().st_uid
        is_gateway = paths.first_run_file(settings).exists()
    except FileNotFoundError:
        is_gateway = False
    except OSError:
        raise Denied(f"{settings.home} is not open to you: run this as the user that runs the gateway") from None
    if not is_gateway:
        raise NotFound(f"no gateway was started with the data folder {settings.home} yet; name another by --home")
    if owner != os.geteuid():
        raise Denied(f"{settings.home} belongs to another user: run this as the user that runs the gateway")


async def _make(settings: Settings, email: str, organisation: str | None, reset: bool = False) -> SetupLink:
    async with open_app(settings, LocalSignals()) as app:
        account = await _account(app, email, organisation)
        with follow() as trail:
            link = await app.services.setup_links.make_for(account, from_host=True)
            if reset:
                await app.services.second_factors.clear(account.principal)
        await app.services.audit.on_host(
            "postern setup-link",
            action="create",
            resource_type="setup-link",
            resource=account.principal.email,
            trail=trail,
        )
        return link


async def _account(app: App, email: str, organisation: str | None) -> Account:
    organisations = app.stores.organisations
    found = await organisations.by_name(organisation) if organisation else await organisations.default()
    if found is None:
        raise NotFound(f"there is no organisation {organisation!r}")
    account = await app.stores.principals.by_email(found.id, email)
    if account is None:
        raise NotFound(f"there is no user {email!r} in the organisation {found.name!r}")
    return account


def _as_it_runs(settings: Settings) -> Settings:
    """With the port that the gateway found, where it was to pick one."""
    if settings.api_port:
        return settings
    try:
        told = json.loads(paths.first_run_file(settings).read_bytes())
        return replace(settings, api_port=int(told["api_url"].rpartition(":")[2]))
    except (OSError, ValueError, KeyError, TypeError):
        raise NotFound("this gateway has not run yet: start it, then ask again") from None
