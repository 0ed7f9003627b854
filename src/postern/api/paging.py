"""The one way that lists are answered: a page of them, in a stable order, and how many there are."""

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

from postern.api.schemas.common import Answer
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
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most")] = DEFAULT_LIMIT,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to leave out first")] = 0,
) -> Page:
    """For lists of what people administer, which are short by nature."""
    return Page(limit, offset)


Paging = Annotated[Page, Depends(page_of)]


async def long_page_of(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most")] = DEFAULT_LIMIT,
    offset: Annotated[
        int, Query(ge=0, description=f"How many to leave out first, at most {MAX_LONG_OFFSET:,}; `cursor` goes on")
    ] = 0,
    cursor: Annotated[
        str | None, Query(max_length=64, description="`next_cursor` of the page before; takes the place of `offset`")
    ] = None,
    count: Annotated[
        Count | None,
        Query(
            description=f"How `total` is counted: `capped` up to {COUNT_CAP:,}, `exact` up to {EXACT_CAP:,}, `none`; "
            "`capped` without a cursor and `none` with one when left out"
        ),
    ] = None,
) -> Page:
    """For lists that grow with use. Raises Invalid."""
    if cursor is not None and offset:
        raise Invalid("cursor: takes the place of offset; give one of both", field="cursor")
    if offset > MAX_LONG_OFFSET:
        raise Invalid(
            f"offset: at most {MAX_LONG_OFFSET:,} in this list; read on with `cursor`, which is `next_cursor` of the "
            "page before",
            field="offset",
        )
    after = None if cursor is None else position_of(cursor)
    return Page(limit, offset, after, count or (Count.CAPPED if after is None else Count.NONE))


LongPaging = Annotated[Page, Depends(long_page_of)]


class ListAnswer(Answer, Generic[Shown]):
    data: list[Shown]
    total: int = Field(description="How many there are over all pages")
    has_next_page: bool


class LongListAnswer(Answer, Generic[Shown]):
    """A list that may be too long to count, and that grows while one reads it."""

    data: list[Shown] = Field(
        description="May hold less than `limit` and go on, where few of many rows fit the filters"
    )
    total: int | None = Field(description="How many there are over all pages; null where they were not counted")
    total_is_capped: bool = Field(description="There are at least `total`, and may be more; counting ended there")
    has_next_page: bool
    next_cursor: str | None = Field(description="Where the next page begins")


def listed(shown: list[Shown], found: Listed[object], page: Page) -> ListAnswer[Shown]:
    """`shown` are the items of `found` as the route shows them."""
    return ListAnswer(data=shown, total=found.total, has_next_page=page.offset + len(shown) < found.total)


def long_listed(shown: list[Shown], found: Stretch[object]) -> LongListAnswer[Shown]:
    """`shown` are the items of `found` as the route shows them."""
    return LongListAnswer(
        data=shown,
        total=found.total,
        total_is_capped=found.total_is_capped,
        has_next_page=found.next is not None,
        next_cursor=None if found.next is None else cursor_of(found.next),
    )


def cursor_of(position: Position) -> str:
    """It gives no rights: whose rows are shown is decided anew for each page. The checksum is against typing errors."""
    micros = (position.at - _EPOCH) // timedelta(microseconds=1)
    body = _CURSOR.pack(micros, position.section, position.id.bytes)
    return base64.urlsafe_b64encode(body + _CRC.pack(crc32(body))).decode().rstrip("=")


def position_of(cursor: str) -> Position:
    """Raises Invalid for what is not a cursor of ours."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        body, (crc,) = raw[: _CURSOR.size], _CRC.unpack(raw[_CURSOR.size :])
        micros, section, key = _CURSOR.unpack(body)
        if crc != crc32(body):
            raise ValueError
        return Position(_EPOCH + timedelta(microseconds=micros), UUID(bytes=key), section)
    except (binascii.Error, struct.error, ValueError, OverflowError):
        raise Invalid("cursor: is not one that this API gave; begin with the first page", field="cursor") from None
