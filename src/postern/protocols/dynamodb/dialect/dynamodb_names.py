"""Names of tables and indexes as rules have them.

A table is a schema of its own: `orders` is the table with all of its indexes, `orders.by-city` an index. Names can be
ARNs: arn:aws:dynamodb:REGION:ACCOUNT:table/orders/index/by-city.
"""

from __future__ import annotations

import re
from typing import Final

from postern.domain.rules.statement import ObjectKind, ObjectName

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_ARN: Final = re.compile(
    r"arn:[a-z0-9-]+:dynamodb:[a-z0-9-]*:\d*:table/(?P<table>[A-Za-z0-9_.-]{1,255})"
    r"(?:/(?P<part>[a-z-]+)/(?P<name>[^|]*))?"
)
_IN_ITERATOR: Final = re.compile(r"arn:[a-z0-9-]+:dynamodb:[a-z0-9-]*:\d*:table/([A-Za-z0-9_.-]{1,255})/stream/")


def table_name(value: object) -> str:
    """Return the name of a table that is given as name or ARN; empty for anything else."""
    if not isinstance(value, str):
        return ""
    if _NAME.fullmatch(value):
        return value
    match = _ARN.fullmatch(value)
    return match["table"] if match else ""


def index_in(value: object) -> str:
    """Return the index that an ARN names; empty for none."""
    match = _ARN.fullmatch(value) if isinstance(value, str) else None
    return match["name"] if match and match["part"] == "index" else ""


def table_of_iterator(value: object) -> str:
    """Return the table whose stream an iterator reads; empty if it does not say."""
    match = _IN_ITERATOR.search(value) if isinstance(value, str) else None
    return match[1] if match else ""


def table_object(name: str) -> ObjectName:
    return ObjectName(ObjectKind.TABLE, name, name)


def index_object(table: str, index: str) -> ObjectName:
    return ObjectName(ObjectKind.TABLE, index, table)
