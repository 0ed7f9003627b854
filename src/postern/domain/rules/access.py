"""The decision whether a principal can see and use a connection, from given facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.rules.access_rule import AccessRule
from postern.domain.targets.connection import Connection


class Ground(StrEnum):
    """The reason for an access decision."""

    ADMIN = "admin"
    AUDITOR = "auditor"
    NOT_ENFORCED = "not_enforced"
    GIVEN = "given"
    RULE = "rule"
    OTHER_GROUPS = "other_groups"
    NO_RULE = "no_rule"
    OTHER_ORGANISATION = "other_organisation"


@dataclass(frozen=True, slots=True)
class Decision:
    """`visible`: it is listed and shown; `allowed`: it can be used, as far as its own access modes go.

    Anything allowed is visible. `rule` and `group` allow it, for RULE. `would` are the rules that allow it to other
    groups, for OTHER_GROUPS: never show them to users whom they do not name.
    """

    ground: Ground
    visible: bool
    allowed: bool
    rule: AccessRule | None = None
    group: str | None = None
    would: tuple[AccessRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """The scope of connections that rules show to a principal, for queries: those that one of `rules` lists, and
    those that carry all of one of `tags`, none of which is empty. Nothing at all when both are empty."""

    rules: tuple[UUID, ...] = ()
    tags: tuple[Mapping[str, str], ...] = ()


def decide(principal: Principal, connection: Connection, rules: Sequence[AccessRule], *, enforced: bool) -> Decision:
    """Decide access. `rules` are all of the organisation; `enforced` says whether access control is enabled.

    Administrators use everything and auditors see everything, also where a rule names them. Once rules are enforced a
    connection that none covers is closed to all others. A machine is in no group: an administrator gives it its
    connections by name, each with a credential, and it can use no others.
    """
    if principal.org_id != connection.org_id:
        return Decision(Ground.OTHER_ORGANISATION, visible=False, allowed=False)
    if principal.is_admin:
        return Decision(Ground.ADMIN, visible=True, allowed=True)
    if principal.is_auditor:
        return Decision(Ground.AUDITOR, visible=True, allowed=False)
    if not enforced:
        return Decision(Ground.NOT_ENFORCED, visible=True, allowed=True)
    if principal.kind is PrincipalKind.MACHINE:
        return Decision(Ground.GIVEN, visible=True, allowed=True)
    covering = [rule for rule in rules if rule.covers(connection)]
    for rule in covering:
        common = rule.groups & principal.groups
        if common:
            return Decision(Ground.RULE, visible=True, allowed=True, rule=rule, group=min(common))
    ground = Ground.OTHER_GROUPS if covering else Ground.NO_RULE
    return Decision(ground, visible=False, allowed=False, would=tuple(covering))


def reach(principal: Principal, rules: Sequence[AccessRule], *, enforced: bool) -> Reach | None:
    """Return the scope that `decide` makes visible, over all connections; None for everything."""
    if not enforced or principal.sees_all:
        return None
    access_rules = [rule for rule in rules if rule.org_id == principal.org_id and rule.groups & principal.groups]
    tags = {
        frozenset(rule.connection_tags.items()): rule.connection_tags for rule in access_rules if rule.connection_tags
    }
    return Reach(tuple(rule.id for rule in access_rules if rule.connection_ids), tuple(tags.values()))


def explain(decision: Decision) -> str:
    """Explain the decision in one sentence. It names rules and groups, so it is for the subject only while it
    allows."""
    match decision.ground:
        case Ground.ADMIN:
            return "administrators can see and use every connection"
        case Ground.AUDITOR:
            return "auditors can see every connection, but use none"
        case Ground.NOT_ENFORCED:
            return "access control is switched off in this organisation, so all users can see and use every connection"
        case Ground.GIVEN:
            return "an administrator assigns connections to this machine identity by name"
        case Ground.RULE if decision.rule is not None:
            return f"the access rule {decision.rule.name!r} is for the group {decision.group!r}"
        case Ground.OTHER_GROUPS:
            rules = "; ".join(f"{rule.name!r} for {_names(rule.groups)}" for rule in decision.would)
            return f"not in any group of the access rules for this connection: {rules}"
        case Ground.NO_RULE:
            return "no access rule covers this connection, so only administrators can use it"
        case _:
            return "the connection belongs to a different organisation"


def _names(groups: frozenset[str]) -> str:
    return ", ".join(repr(name) for name in sorted(groups)) or "no group"
