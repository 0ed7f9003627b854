"""Timestamps in query parameters: RFC 3339, converted to UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

_DATE = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _written_out(value: Any) -> Any:
    """Reject a bare number, which could be seconds or milliseconds."""
    if isinstance(value, str) and not _DATE.match(value):
        raise PydanticCustomError("moment", "must be a timestamp such as 2026-01-31T12:00:00Z")
    return value


def _in_utc(moment: datetime) -> datetime:
    """Read a timestamp without a time zone as UTC."""
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("moment", "is out of range") from None


Moment = Annotated[datetime, BeforeValidator(_written_out), AfterValidator(_in_utc)]
