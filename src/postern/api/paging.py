"""Paging of lists: a page in a stable order, and the total."""

from __future__ import annotations

import base64
import binascii
import struct
from datetime import UTC, datetime, timedelta
from typing import Annotated, Generic, TypeVar
from uuid import UUID
from zlib import crc32

from fastapi import Depends, Query
from pydantic import Field

from postern.api.schemas.common import Answer, AttributeAnswer
from postern.domain.facets import MAX_COUNTED, MAX_VALUES, Facets
from postern.domain.lists import (
    COUNT_CAP,
    DEFAULT_LIMIT,
    EXACT_CAP,
    MAX_LIMIT,
    MAX_LONG_OFFSET,
    MAX_OFFSET,
    Count,
    Listed,
    Page,
    Position,
    Stretch,
)
from postern.errors import Invalid

Shown = TypeVar("Shown")

_CURSOR = struct.Struct(">qB16s")  # microseconds since 1970, section, identifier
_CRC = struct.Struct(">I")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def page_of(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items")] = DEFAULT_LIMIT,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="Number of items to skip")] = 0,
) -> Page:
    """Paging of lists that administrators maintain, which are short."""
    return Page(limit, offset)


Paging = Annotated[Page, Depends(page_of)]


async def long_page_of(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of items")] = DEFAULT_LIMIT,
    offset: Annotated[
        int, Query(ge=0, description=f"Number of items to skip, at most {MAX_LONG_OFFSET:,}; use `cursor` beyond that")
    ] = 0,
    cursor: Annotated[
        str | None, Query(max_length=64, description="`next_cursor` of the previous page; replaces `offset`")
    ] = None,
    count: Annotated[
        Count | None,
        Query(
            description=f"How `total` is counted: `capped` up to {COUNT_CAP:,}, `exact` up to {EXACT_CAP:,}, `none`. "
            "Default: `capped` without a cursor, `none` with one"
        ),
    ] = None,
) -> Page:
    """Paging of lists that grow with use. Raises Invalid."""
    if cursor is not None and offset:
        raise Invalid("cursor: cannot be combined with offset; leave out one of them", field="cursor")
    if offset > MAX_LONG_OFFSET:
        raise Invalid(
            f"offset: at most {MAX_LONG_OFFSET:,} in this list; continue with `cursor`, the `next_cursor` "
            "of the previous page",
            field="offset",
        )
    after = None if cursor is None else position_of(cursor)
    return Page(limit, offset, after, count or (Count.CAPPED if after is None else Count.NONE))


LongPaging = Annotated[Page, Depends(long_page_of)]


class ListAnswer(Answer, Generic[Shown]):
    data: list[Shown]
    total: int = Field(description="Number of items on all pages")
    has_next_page: bool


class FacetValueAnswer(AttributeAnswer):
    value: str
    count: int


class FacetAnswer(AttributeAnswer):
    """The values of one field, the most frequent first."""

    values: list[FacetValueAnswer] = Field(description=f"At most {MAX_VALUES}")
    is_cut: bool = Field(description="True: there are more values")


class FacetsAnswer(Answer):
    """The values of fields, over all pages of a list."""

    facets: dict[str, FacetAnswer]
    is_capped: bool = Field(
        description=f"True: only the newest {MAX_COUNTED:,} items were looked at; choose a shorter period"
    )

    @classmethod
    def of(cls, facets: Facets) -> FacetsAnswer:
        fields = {name: FacetAnswer.of(facet) for name, facet in facets.fields.items()}
        return cls(facets=fields, is_capped=facets.is_capped)


class LongListAnswer(Answer, Generic[Shown]):
    """A list that can be too long to count, and that grows while it is read."""

    data: list[Shown] = Field(
        description="The page can have fewer items than `limit` although more follow, if few rows match the filters"
    )
    total: int | None = Field(description="Number of items on all pages; null if they were not counted")
    total_is_capped: bool = Field(
        description="True: there are at least `total`, and possibly more; counting stopped there"
    )
    has_next_page: bool
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last one")


def make_list_answer(items: list[Shown], rows: Listed[object], page: Page) -> ListAnswer[Shown]:
    """Return the page. `items` are `rows` in the form of the route."""
    return ListAnswer(data=items, total=rows.total, has_next_page=page.offset + len(items) < rows.total)


def make_long_list_answer(items: list[Shown], rows: Stretch[object]) -> LongListAnswer[Shown]:
    """Return the page. `items` are `rows` in the form of the route."""
    return LongListAnswer(
        data=items,
        total=rows.total,
        total_is_capped=rows.total_is_capped,
        has_next_page=rows.next is not None,
        next_cursor=None if rows.next is None else cursor_of(rows.next),
    )


def cursor_of(position: Position) -> str:
    """Return a cursor. It gives no rights: each page checks access again. The checksum detects typing errors."""
    micros = (position.at - _EPOCH) // timedelta(microseconds=1)
    body = _CURSOR.pack(micros, position.section, position.id.bytes)
    return base64.urlsafe_b64encode(body + _CRC.pack(crc32(body))).decode().rstrip("=")


def position_of(cursor: str) -> Position:
    """Parse a cursor. Raises Invalid if it is not one."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        body, (crc,) = raw[: _CURSOR.size], _CRC.unpack(raw[_CURSOR.size :])
        micros, section, key = _CURSOR.unpack(body)
        if crc != crc32(body):
            raise ValueError
        return Position(_EPOCH + timedelta(microseconds=micros), UUID(bytes=key), section)
    except (binascii.Error, struct.error, ValueError, OverflowError):
        raise Invalid("cursor: is not a cursor of this API; begin with the first page", field="cursor") from None
