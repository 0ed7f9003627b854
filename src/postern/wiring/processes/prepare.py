"""Preparations of a start, before anything serves: schema, keys, certificates, the first administrator, the demo.

Runs as a separate process, once at each start, before workers and API. It creates what is missing, and changes nothing
else: a second start changes no secret.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from postern import __version__
from postern.demo import demo_target as demo
from postern.domain.identity.login import ClientKind, LoginMethod
from postern.domain.identity.principal import Account, Principal
from postern.domain.secret import Secret
from postern.errors import Denied, Misconfigured, Unavailable
from postern.protocols.clients import NativeCredential
from postern.protocols.postgres.postgres_client import psql_line, replace_address, user_of
from postern.protocols.registry import PROTOCOLS
from postern.services.identity.accounts import FIRST_ADMIN
from postern.services.identity.logins.logins import ClientFacts
from postern.settings import Settings
from postern.store.signals import LocalSignals
from postern.store.sql.resealing import reseal_direct
from postern.store.sql.sql_installation import VERSION, SqlInstallation
from postern.wiring import demo_shop, paths, tls
from postern.wiring.app import App, open_app
from postern.wiring.host.claim import build_claim, require_free

DEMO_CREDENTIAL_LIFE = timedelta(days=30)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedLogin:
    """What the command line of this user needs for a login. `token` is None if the first administrator was deleted or
    is inactive. `own_urls` are the addresses that this gateway had, with the present one."""

    api_url: str
    email: str
    token: Secret | None
    authority: str
    own_urls: frozenset[str]


def run(settings: Settings) -> PreparedLogin:
    """Prepare the start. Raises Misconfigured, Unavailable, or Conflict if a different gateway uses the store."""
    return asyncio.run(_prepare(settings))


async def _prepare(settings: Settings) -> PreparedLogin:
    if paths.restoring(settings).exists():
        raise Misconfigured(
            f"a restore into {settings.home} runs or was interrupted; if it does not run, empty that folder and the "
            "store, and restore again",
            field="home",
        )
    certificate = tls.material(settings)
    certificate.server_context()  # an error is reported now, and not by every worker
    for spec in PROTOCOLS.values():
        if spec.host_key is not None:
            spec.host_key(settings)
    await require_free(settings)
    async with open_app(settings, LocalSignals(), migrate=True) as app:
        await build_claim(settings, app.database).take()
        await SqlInstallation(app.database).put(VERSION, __version__, app.services.now())
        await reseal_direct(app.database, app.encryption)
        first_run = _read(settings)
        urls = frozenset({settings.api_url, first_run.get("api_url", settings.api_url)})
        await app.services.agents.ensure_embedded()
        admin = await app.services.accounts.ensure_first_admin()
        if admin is not None:
            first_run = {"admin_email": admin[0], "admin_password": admin[1].reveal(), "setup_url": "", "psql": ""}
            _write(settings, first_run)  # at once: this password is never available again
            log.info("created the first administrator %s", admin[0])
            first_run["setup_url"] = await _setup_url(app)
        first_run = {**first_run, "api_url": settings.api_url}
        first_run["psql"] = await _psql(app, settings, first_run.get("psql", ""))
        _write(settings, first_run)
        token = await _token(app)
    paths.api_url(settings).parent.mkdir(mode=0o700, exist_ok=True)
    paths.api_url(settings).write_text(settings.api_url)
    authority = tls.authority(settings)
    return PreparedLogin(settings.api_url, FIRST_ADMIN, token, authority.read_text() if authority else "", urls)


async def _psql(app: App, settings: Settings, stored_line: str) -> str:
    """Return the psql line for the demo; empty without one. Its credential is issued once, and again when it has
    expired."""
    if not settings.demo:
        return stored_line
    setter = await _setter(app)
    target = demo.load(settings.home)
    config = await app.services.server_configs.current()
    host, port = config.client_host("postgres", settings.address), config.listeners["postgres"].endpoint.port
    if stored_line:
        await demo_shop.follow(app.services, setter, target)
        if not await _has_expired(app, stored_line):
            return replace_address(stored_line, host, port)
    else:
        await demo_shop.make(app.services, setter, target)
    account = await _first_admin(app)
    if account is None:
        log.warning("there is no user %s, so no credential for the demo was issued; use `postern connect`", FIRST_ADMIN)
        return ""
    # The line is printed once and used for days; the demo contains nothing that a shorter lifetime would protect.
    life = int(DEMO_CREDENTIAL_LIFE.total_seconds())
    issued = await app.services.credentials.issue(account.principal, demo_shop.NAME, life)
    authority = tls.authority(settings)
    user = issued.credential.username
    return psql_line(NativeCredential(user, issued.password, host, port, target.database, authority))


async def _has_expired(app: App, line: str) -> bool:
    """Leave a credential that was revoked, or whose connection was deleted, as it is."""
    grant = await app.services.access.find_grant(user_of(line))
    if grant is None or grant.revoked_at is not None or grant.expires_at is None:
        return False
    return grant.expires_at <= app.services.now()


async def _setter(app: App) -> Principal:
    """Return the principal that acts here: the machine itself, with an administrator's rights; no row of the store."""
    organisation = await app.stores.organisations.default()
    roles = organisation.role_groups
    groups = frozenset({roles.admin})
    return Principal(uuid4(), organisation.id, "setup", "setup@localhost", "Set-up", groups, role_groups=roles)


async def _setup_url(app: App) -> str:
    """Return the set-up link, which also works if users log in at an identity provider, where the password does not."""
    account = await _first_admin(app)
    return (await app.services.setup_links.issue_for(account, from_host=True)).url.reveal() if account else ""


async def _first_admin(app: App) -> Account | None:
    organisation = await app.stores.organisations.default()
    return await app.stores.principals.by_email(organisation.id, FIRST_ADMIN)


async def _token(app: App) -> Secret | None:
    account = await _first_admin(app)
    if account is None or not account.principal.is_active:
        return None
    client = ClientFacts(ClientKind.CLI, "127.0.0.1", "postern up")
    try:
        return (await app.services.logins.open(account, LoginMethod.LOCAL, client)).token
    except Denied:  # a network rule does not allow this machine
        return None


def _read(settings: Settings) -> dict[str, str]:
    try:
        values = json.loads(paths.first_run_file(settings).read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise Unavailable(
            f"{paths.first_run_file(settings)} is damaged; remove it. If no administrator can log in then, "
            "run `postern setup-link`"
        ) from None
    return {str(key): str(value) for key, value in values.items()}


def _write(settings: Settings, first_run: Mapping[str, str]) -> None:
    file = paths.first_run_file(settings)
    draft = file.with_name(".first-run.json")
    names = ("api_url", "admin_email", "admin_password", "setup_url", "psql")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        json.dump({name: first_run.get(name, "") for name in names}, stream, indent=2)
        stream.write("\n")
    draft.replace(file)
