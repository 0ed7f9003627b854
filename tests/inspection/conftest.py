"""Shared by the tests of inspection: events that hold plain lists, and the session that they belong to."""

from __future__ import annotations

from uuid import UUID

import pytest

from postern.interception.events import Channel, Column, Output, Rows, TextKind
from postern.interception.pipeline import SessionView


class ListRows(Rows):
    """A block of rows that holds each column's texts as a list."""

    def __init__(self, *columns: tuple[TextKind, list[bytes]]) -> None:
        self.exchange = 1
        self.columns = tuple(Column(f"c{number}", kind) for number, (kind, _) in enumerate(columns))
        self.count = max((len(texts) for _, texts in columns), default=0)
        self.held = [list(texts) for _, texts in columns]
        self.replaced: list[int] = []

    def texts(self, column: int) -> list[bytes]:
        return list(self.held[column])

    def replace(self, column: int, texts: list[bytes]) -> None:
        assert len(texts) == len(self.held[column])
        self.held[column] = texts
        self.replaced.append(column)


class ListOutput(Output):
    def __init__(self, texts: list[bytes], channel: Channel = Channel.ERROR) -> None:
        self.exchange = 1
        self.channel = channel
        self.held = texts

    def texts(self) -> list[bytes]:
        return list(self.held)

    def replace(self, texts: list[bytes]) -> None:
        assert len(texts) == len(self.held)
        self.held = texts


def make_session() -> SessionView:
    return SessionView(
        id=UUID(int=1),
        user="ann@example.com",
        groups=frozenset(),
        connection="shop",
        connection_type="database",
        connection_subtype="postgres",
        connection_tags={},
    )


@pytest.fixture
def session() -> SessionView:
    return make_session()
