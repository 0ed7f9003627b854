"""A network rule: from which addresses users and programs can log in and use connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from postern.domain.identity.networks import contains
from postern.domain.identity.principal import Principal
from postern.domain.targets.connection import Connection


@dataclass(frozen=True, slots=True)
class NetworkRule:
    """Whom it is for can use what it covers from `allowed_networks` (CIDR texts) only.

    It is for the members of any of `groups`, and for everyone if that is empty. It covers the connections listed, and
    those that carry all of `connection_tags`; if it names neither, it covers the whole gateway: every connection,
    logins and the API. Rules only restrict: each rule that applies must allow the address.
    """

    id: UUID
    org_id: UUID
    name: str
    description: str = ""
    enabled: bool = True
    allowed_networks: tuple[str, ...] = ()
    groups: frozenset[str] = frozenset()
    connection_ids: frozenset[UUID] = frozenset()
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    connection_names: tuple[str, ...] = field(default=(), compare=False)  # sorted, as they were read
    managed_by: str | None = None

    @property
    def covers_gateway(self) -> bool:
        """Return whether it covers logins and the API, and every connection."""
        return not self.connection_ids and not self.connection_tags

    def is_for(self, principal: Principal) -> bool:
        return principal.org_id == self.org_id and (not self.groups or not self.groups.isdisjoint(principal.groups))

    def covers(self, connection: Connection) -> bool:
        return self.covers_gateway or connection.is_named(self.org_id, self.connection_ids, self.connection_tags)


def find_applying_rules(
    rules: Sequence[NetworkRule], principal: Principal, connection: Connection | None
) -> list[NetworkRule]:
    """Return the rules that apply to the principal there. Without a connection, only rules about the whole gateway
    apply."""
    return [
        rule
        for rule in rules
        if rule.enabled
        and rule.is_for(principal)
        and (rule.covers_gateway if connection is None else rule.covers(connection))
    ]


def find_denying_rule(
    rules: Sequence[NetworkRule], principal: Principal, connection: Connection | None, address: str
) -> NetworkRule | None:
    """Return the first rule that applies and does not allow the address; None if all that apply do. An address that
    cannot be parsed is in no network."""
    applying = find_applying_rules(rules, principal, connection)
    return next((rule for rule in applying if not contains(rule.allowed_networks, address)), None)
