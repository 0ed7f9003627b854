"""Management of network rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from postern.domain.identity.networks import check_networks
from postern.domain.identity.principal import Principal
from postern.domain.rules.network_rule import NetworkRule, find_denying_rule
from postern.domain.targets.connection import check_tags
from postern.errors import Invalid
from postern.services.identity.users import checked_groups
from postern.services.named_resources import ResourceService, replace_fields
from postern.services.rules.rule_fields import MAX_GROUPS, with_connection_ids
from postern.services.server.audit_context import current_address
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore


class NetworkRules(ResourceService[NetworkRule]):
    """A change at once ends the sessions whose addresses are no longer allowed."""

    noun = "network rule"

    def __init__(
        self, store: NamedResourceStore[NetworkRule], connections: ConnectionStore, signals: Signals, now: Clock
    ) -> None:
        super().__init__(store, signals, now)
        self._connections = connections

    def blank(self, key: UUID, org_id: UUID) -> NetworkRule:
        return NetworkRule(key, org_id, "")

    async def resolve(self, current: NetworkRule, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        resolved = dict(fields)
        if "groups" in resolved:
            resolved["groups"] = checked_groups(resolved["groups"])
        if "allowed_networks" in resolved:
            resolved["allowed_networks"] = check_networks(resolved["allowed_networks"])
        return await with_connection_ids(self._connections, current.org_id, resolved)

    async def check(self, resource: NetworkRule) -> None:
        if not resource.allowed_networks:
            raise Invalid("allowed_networks: must have at least one network", field="allowed_networks")
        if len(resource.groups) > MAX_GROUPS:
            raise Invalid(f"groups: at most {MAX_GROUPS}", field="groups")
        check_tags(resource.connection_tags)

    async def authorize(self, principal: Principal, before: NetworkRule | None, after: NetworkRule | None) -> None:
        """Reject a rule that locks out the administrator who writes it."""
        address = current_address()
        if after is not None and address and find_denying_rule([after], principal, None, address) is not None:
            raise Invalid(
                f"allowed_networks: your own address {address} is in none of them, so that this rule would lock you "
                "out; add its network, or name groups or connections",
                field="allowed_networks",
            )

    # For commands on the gateway's own machine, so that administrators get in again

    async def find_gateway_rules(self, org_id: UUID) -> list[NetworkRule]:
        """Return the enabled rules that limit logins and the API."""
        return [rule for rule in await self._store.all(org_id) if rule.enabled and rule.covers_gateway]

    async def disable(self, rule: NetworkRule) -> None:
        await self.write(rule, replace_fields(rule, enabled=False, updated_at=self._now()))
