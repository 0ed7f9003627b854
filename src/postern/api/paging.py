"""The one way that lists are answered: a page of them, in a stable order, and how many there are."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.lists import DEFAULT_LIMIT, MAX_LIMIT, MAX_OFFSET, Listed, Page

Shown = TypeVar("Shown")


async def page_of(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most")] = DEFAULT_LIMIT,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to leave out first")] = 0,
) -> Page:
    return Page(limit, offset)


Paging = Annotated[Page, Depends(page_of)]


class ListAnswer(Answer, Generic[Shown]):
    data: list[Shown]
    total: int = Field(description="How many there are over all pages")
    has_next_page: bool


def listed(shown: list[Shown], found: Listed[object], page: Page) -> ListAnswer[Shown]:
    """`shown` are the items of `found` as the route shows them."""
    return ListAnswer(data=shown, total=found.total, has_next_page=page.offset + len(shown) < found.total)
