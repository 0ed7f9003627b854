"""Review rules, with their groups by field, and the connections they list."""

from __future__ import annotations

from typing import Any

from postern.domain.reviews.review_rule import AccessType, ReviewRule
from postern.store.prepared import Row
from postern.store.schema.review_tables import review_rule_connections, review_rule_groups, review_rules
from postern.store.sql.resource_table import ConnectionLinks, listed_ids, listed_names
from postern.store.sql.rules.rule_table import GroupLinks, RuleTable

_PLAIN = ("name", "description", "connection_tags", "all_groups", "min_approvals", "max_duration", "updated_at")


class SqlReviewRules(RuleTable[ReviewRule]):
    table, noun = review_rules, "review rule"
    groups = GroupLinks(
        review_rule_groups,
        {
            "reviewers": "reviewers_groups",
            "force": "force_groups",
            "required": "required_groups",
            "skip": "skip_groups",
        },
    )
    links = (groups, ConnectionLinks(review_rule_connections))

    async def values(self, resource: ReviewRule) -> dict[str, Any]:
        plain = {name: getattr(resource, name) for name in _PLAIN}
        return plain | {"access_type": resource.access_type, "connection_tags": dict(resource.connection_tags)}

    async def read(self, row: Row) -> ReviewRule:
        groups = self.groups.names(row)
        return ReviewRule(
            **{name: row[name] for name in ("id", "org_id", *_PLAIN, "created_at", "managed_by", "version")},
            access_type=AccessType(row["access_type"]),
            reviewers_groups=groups["reviewers_groups"],
            force_groups=groups["force_groups"],
            required_groups=frozenset(groups["required_groups"]),
            skip_groups=frozenset(groups["skip_groups"]),
            connection_ids=listed_ids(row),
            connection_names=listed_names(row),
        )

    def needs(self, rule: ReviewRule, group: str) -> str | None:
        """Return why the rule needs the group. Groups that force, or are exempt, only become fewer."""
        if group in rule.required_groups:
            return "the rule applies to the members of this group"
        if rule.reviewers_groups == (group,):
            return "no other group can approve"
        if rule.all_groups and group in rule.reviewers_groups:
            return "the approval of this group is required"
        return None
