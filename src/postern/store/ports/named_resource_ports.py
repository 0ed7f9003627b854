"""The store of named resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from postern.domain.lists import Listed, Page
from postern.domain.named_resource import NamedResource
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter

R = TypeVar("R", bound=NamedResource)


class NamedResourceStore(Protocol[R]):
    async def all(self, org_id: UUID) -> list[R]:
        """Return all of them by name, consistently."""

    async def find(self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES) -> Listed[R]:
        """Return one page of them by name."""

    async def get(self, org_id: UUID, name_or_id: str) -> R | None:
        """Return the resource: a name takes precedence over an identifier of the same spelling."""

    async def find_existing_ids(self, org_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
        """Return those identifiers that exist."""

    async def add(self, resource: R) -> None:
        """Add a resource. Raises Conflict where the name is in use, Invalid where the maximum is reached."""

    async def update(self, resource: R) -> R:
        """Replace the resource, and return it with its next version.

        Raises NotFound where it is gone, Conflict where it was changed since it was read, or its name is in use.
        """

    async def remove(self, resource: R) -> None:
        """Remove the resource. Raises NotFound where it is gone, Conflict where it was changed since it was read."""
