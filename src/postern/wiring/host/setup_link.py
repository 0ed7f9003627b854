"""A set-up link created on the gateway's own machine: for the first administrator, and if no user can log in.

A user who can read the data folder has full access anyway, so this needs no login.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from postern.domain.identity.principal import Account
from postern.errors import NotFound
from postern.services.identity.accounts import FIRST_ADMIN
from postern.services.identity.setup_links import SetupLink
from postern.services.server.audit_context import collect_change
from postern.settings import Settings
from postern.store.signals import LocalSignals
from postern.wiring import paths
from postern.wiring.app import App, open_app
from postern.wiring.host.host_folder import require_own_gateway


def make(
    settings: Settings, email: str | None, organisation: str | None, *, reset_second_factors: bool = False
) -> SetupLink:
    """Create the link; for the first administrator without `email`. Raises NotFound, Invalid, Denied, Misconfigured,
    Unavailable."""
    require_own_gateway(settings)
    return asyncio.run(_make(_as_it_runs(settings), email or FIRST_ADMIN, organisation, reset_second_factors))


async def _make(settings: Settings, email: str, organisation: str | None, reset: bool = False) -> SetupLink:
    async with open_app(settings, LocalSignals()) as app:
        account = await _account(app, email, organisation)
        with collect_change() as trail:
            link = await app.services.setup_links.issue_for(account, from_host=True)
            if reset:
                await app.services.second_factors.clear(account.principal)
        await app.services.audit.on_host(
            "postern setup-link",
            action="create",
            resource_type="setup-link",
            resource=account.principal.email,
            audit_context=trail,
        )
        return link


async def _account(app: App, email: str, organisation: str | None) -> Account:
    organisations = app.stores.organisations
    found_organisation = await organisations.by_name(organisation) if organisation else await organisations.default()
    if found_organisation is None:
        raise NotFound(f"there is no organisation {organisation!r}")
    account = await app.stores.principals.by_email(found_organisation.id, email)
    if account is None:
        raise NotFound(f"there is no user {email!r} in the organisation {found_organisation.name!r}")
    return account


def _as_it_runs(settings: Settings) -> Settings:
    """Return the API's address, with the port that the gateway chose, if it was to choose one."""
    if settings.api_port:
        return settings
    try:
        api_url = paths.api_url(settings).read_text()
        return replace(settings, api_port=int(api_url.rpartition(":")[2]))
    except (OSError, ValueError):
        raise NotFound("this gateway has not run yet: start it, then run this again") from None
