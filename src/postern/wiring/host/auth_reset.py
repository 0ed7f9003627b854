"""`postern auth reset`: restores local login from any address, for users of this machine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from postern.domain.identity.login import LoginMethod
from postern.services.server.audit_context import collect_change
from postern.settings import Settings
from postern.store.signals import SocketSignals
from postern.wiring import paths
from postern.wiring.app import App, open_app
from postern.wiring.host.host_folder import require_own_gateway

_HUB_WAIT = 1.0  # seconds for the running gateway, if there is one


@dataclass(frozen=True, slots=True)
class Reset:
    was: LoginMethod
    admin_with_password: bool
    disabled_network_rules: tuple[str, ...]


def run(settings: Settings) -> Reset:
    """Raises NotFound, Denied, Misconfigured, Unavailable."""
    return asyncio.run(_reset(settings))


async def _reset(settings: Settings) -> Reset:
    require_own_gateway(settings)
    signals = SocketSignals(paths.signals_socket(settings))
    await signals.start()
    try:
        await _reach(signals)
        async with open_app(settings, signals) as app:
            with collect_change() as trail:
                before, admin_with_password = await app.services.auth_settings.reset()
            await app.services.audit.on_host(
                "postern auth reset", action="reset", resource_type="serverconfig/auth", audit_context=trail
            )
            disabled = await _disable_network_rules(app)
    finally:
        await signals.stop()
    return Reset(before.method, admin_with_password, disabled)


async def _disable_network_rules(app: App) -> tuple[str, ...]:
    """Disable the default organisation's rules that limit logins and the API. Return their names."""
    organisation = await app.stores.organisations.default()
    names = []
    for rule in await app.services.network_rules.find_gateway_rules(organisation.id):
        with collect_change() as trail:
            await app.services.network_rules.disable(rule)
        await app.services.audit.on_host(
            "postern auth reset",
            action="update",
            resource_type="network-rules",
            resource=rule.name,
            audit_context=trail,
        )
        names.append(rule.name)
    return tuple(names)


async def _reach(signals: SocketSignals) -> None:
    """Notify a running gateway; a stopped one reads the stored settings when it starts."""
    end = asyncio.get_running_loop().time() + _HUB_WAIT
    while not signals.connected and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 - once, at most a second
        await asyncio.sleep(0.02)
