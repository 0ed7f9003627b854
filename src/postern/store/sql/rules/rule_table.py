"""Rules that name groups: renames and removals of a group, for all their stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Label, Table, delete, func, select, update

from postern.domain.identity.principal import UserGroup
from postern.domain.named_resource import NamedResource
from postern.errors import Conflict
from postern.store.prepared import Row
from postern.store.sql.identity.sql_principals import hold_groups
from postern.store.sql.resource_table import ResourceTable, replace_rows
from postern.store.sql.rows import SEPARATOR, split
from postern.store.threaded import Executor

R = TypeVar("R", bound=NamedResource)


@dataclass(frozen=True)
class GroupLinks:
    """The groups that a rule names. `fields` has the field of the rule for each part of `pairs`; a table of one part
    has no such column, and the part is ""."""

    pairs: Table
    fields: Mapping[str, str]

    def columns(self, table: Table) -> Sequence[Label[str]]:
        text: ColumnElement[str] = self.pairs.c.name
        if "part" in self.pairs.c:
            text = self.pairs.c.part + ":" + text
        joined = select(func.aggregate_strings(text, SEPARATOR)).where(self.pairs.c.rule_id == table.c.id)
        return [joined.correlate(table).scalar_subquery().label("groups")]

    def names(self, row: Row) -> dict[str, tuple[str, ...]]:
        """Return the groups of each field, sorted, so that the same rule has the same requirement."""
        groups: dict[str, list[str]] = {field: [] for field in self.fields.values()}
        for text in sorted(split(row["groups"])):
            part, _, name = text.partition(":") if "part" in self.pairs.c else ("", "", text)
            groups[self.fields[part]].append(name)
        return {field: tuple(names) for field, names in groups.items()}

    async def hold(self, transaction: Executor, resource: Any) -> None:
        names = frozenset(name for field in self.fields.values() for name in getattr(resource, field))
        await hold_groups(transaction, resource.org_id, names)

    async def replace(self, transaction: Executor, resource: Any) -> None:
        rows = [
            {"name": name} | ({"part": part} if part else {})
            for part, field in self.fields.items()
            for name in sorted(getattr(resource, field))
        ]
        await replace_rows(transaction, self.pairs.c.rule_id, resource.id, rows)


class RuleTable(ResourceTable[R]):
    groups: GroupLinks
    most = 500  # each is looked at for every decision

    def needs(self, rule: R, group: str) -> str | None:
        """Return why the rule would protect less without this group, None where it would not."""
        return None

    async def rename_group(self, transaction: Executor, group: UserGroup, name: str) -> None:
        """Rename a group; a part of a rule that names both, the old name and the new one, names the new one once."""
        pairs = self.groups.pairs
        other = pairs.alias()
        same = [other.c.rule_id == pairs.c.rule_id, other.c.name == name]
        if "part" in pairs.c:
            same.append(other.c.part == pairs.c.part)
        both = select(other.c.rule_id).where(*same).correlate(pairs).exists()
        await self._bump(transaction, group)
        await transaction.execute(delete(pairs).where(*self._of(group), both))
        await transaction.execute(update(pairs).where(*self._of(group)).values(name=name))

    async def remove_group(self, transaction: Executor, group: UserGroup) -> None:
        """Remove a group, whose row must be locked. Raises Conflict, naming the first rule that needs it.

        Locks the rules, since another of their groups may be removed at the same time.
        """
        condition = self.table.c.org_id == group.org_id
        await transaction.execute(select(self.table.c.id).where(condition).order_by(self.table.c.id).with_for_update())
        for row in (await transaction.execute(self._all.where(condition))).mappings():
            rule = await self.read(row)
            reason = self.needs(rule, group.name)
            if reason is not None:
                raise Conflict(
                    f"{self.noun} {rule.name!r} needs the group {group.name!r}: {reason}; change the rule first"
                )
        await self._bump(transaction, group)
        await transaction.execute(delete(self.groups.pairs).where(*self._of(group)))

    async def _bump(self, transaction: Executor, group: UserGroup) -> None:
        """Increase the versions of the group's rules, so that an outdated write cannot restore the old group."""
        rules = self.table.c.id.in_(select(self.groups.pairs.c.rule_id).where(*self._of(group)))
        await transaction.execute(update(self.table).where(rules).values(version=self.table.c.version + 1))

    def _of(self, group: UserGroup) -> list[ColumnElement[bool]]:
        """Return the condition that rules name this group; a different organisation may have one of the same name."""
        query = select(self.table.c.id).where(self.table.c.org_id == group.org_id)
        return [self.groups.pairs.c.name == group.name, self.groups.pairs.c.rule_id.in_(query)]
