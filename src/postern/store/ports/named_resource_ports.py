"""What services of named resources need of the store."""

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
        """Return all of them by name, as they are at one moment."""

    async def find(self, org_id: UUID, page: Page, where: RuleFilter = ALL_RULES) -> Listed[R]:
        """Return one page of them by name."""

    async def get(self, org_id: UUID, name_or_id: str) -> R | None:
        """Return the one that is meant: a name wins over an identifier of the same spelling."""

    async def find_existing_ids(self, org_id: UUID, ids: Sequence[UUID]) -> set[UUID]:
        """Return which of these there are."""

    async def add(self, resource: R) -> None:
        """Raises Conflict where the name is taken, Invalid where there are as many as there may be."""

    async def update(self, resource: R) -> R:
        """Replace what is stored, and return the resource with its next version. Raises NotFound where it is gone,
        Conflict where it was changed since it was read, or its name is taken."""

    async def remove(self, resource: R) -> None:
        """Raises NotFound where it is gone, Conflict where it was changed since it was read."""
