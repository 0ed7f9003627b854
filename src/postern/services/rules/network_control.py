"""Network control: from which addresses a principal can log in and use connections."""

from __future__ import annotations

import logging

from postern.domain.identity.principal import Principal
from postern.domain.rules.network_rule import NetworkRule, find_applying_rules, find_denying_rule
from postern.domain.runbook import SCHEDULE_SOURCE
from postern.domain.targets.connection import Connection
from postern.services.rules.rule_cache import RuleCache
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore

log = logging.getLogger(__name__)


class NetworkControl:
    """Decides by network rules. Costs no statement while they are cached; `signals` report changes."""

    def __init__(self, store: NamedResourceStore[NetworkRule], signals: Signals, now: Clock) -> None:
        self._rules = RuleCache(store, signals, now)

    async def find_rules(self, principal: Principal, connection: Connection) -> list[NetworkRule]:
        """Return the rules that limit the principal's use of the connection. Raises Unavailable."""
        return find_applying_rules(await self._rules.get(principal.org_id), principal, connection)

    async def find_denial(self, principal: Principal, connection: Connection | None, address: str) -> str | None:
        """Return why the address is denied; None if it is allowed. Without a connection: for logins and the API.

        Runs of a schedule have no address: the gateway starts them. Raises Unavailable when the rules cannot be read.
        """
        if address == SCHEDULE_SOURCE:
            return None
        rules = await self._rules.get(principal.org_id)
        rule = find_denying_rule(rules, principal, connection, address) if rules else None
        if rule is None:
            return None
        log.info(
            "address denied by a network rule: rule=%s address=%s user=%s connection=%s",
            rule.name,
            address,
            principal.email,
            "" if connection is None else connection.name,
        )
        what = "this gateway" if connection is None else f"connection {connection.name!r}"
        return (
            f"{what} cannot be used from your address {address or 'unknown'} (network rule {rule.name!r}); connect "
            "from an allowed network, or ask an administrator"
        )
