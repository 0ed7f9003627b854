"""The description of a result's columns, which is judged before the client receives it.

A description of a query follows from its text. One of a cursor that a block opens can be chosen by values, or its names
can be made of them by dynamic SQL. If such a description may not be shown, the answer is refused: the type of its
columns cannot be replaced, as the rows come in it.
"""

from __future__ import annotations

from postern.interception.events import Heading
from postern.protocols.oracledb.wire.oracle_rows import describe_columns
from postern.protocols.oracledb.wire.ttc_columns import OracleColumn


class OracleHeading(Heading):
    """The columns of a result, or of all cursors in a message."""

    def __init__(self, exchange: int, columns: tuple[OracleColumn, ...], prepared: str) -> None:
        self.exchange = exchange
        self.columns = describe_columns(columns)
        self.count = 0
        self.prepared = prepared
        self.may_fetch = True
        self.is_hidden = False  # the description may not be shown as it is

    def describe_as_text(self, column: int, *, with_name: bool = True) -> None:
        self.is_hidden = True
