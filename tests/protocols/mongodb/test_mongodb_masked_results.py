"""Tables of results know their masked cells, though the wire masks paths and the tables have top-level fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bson import Int64
from tests.support.protocols import mongodb_test_messages as mg
from tests.support.protocols.wire_contracts import new_link

from postern.domain.sessions.results import Mask, ResultColumns, Row
from postern.interception.events import Event, Mark, Rows
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import REPLACE, Verdict
from postern.protocols.mongodb.recorded.mongodb_tables import OTHER_FIELDS, MongodbResults
from postern.protocols.mongodb.wire.mongodb_wire import MongodbWire
from postern.protocols.wire_base import Side
from postern.recording.recorded_results import RecordedResults
from postern.relay.link import Record

RULE = Mask("people", "null")


@dataclass
class MasksPaths:
    """Masks these paths with null, so that a reader of the bytes sees other types than the wire did."""

    paths: tuple[str, ...]
    whole: bool = False
    name = "test"
    wants: frozenset[type[Event]] = frozenset({Rows})
    batch_need: BatchNeed = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Rows)
        event.expect([column.name in self.paths for column in event.columns])
        for number, column in enumerate(event.columns):
            if column.name in self.paths:
                event.change(number, lambda scalar, value: None)
                rows = b"" if self.whole else event.find_changed_rows(number)
                session.marks.append(Mark(RULE, (number,), rows, whole=self.whole))
        return REPLACE


def results(interceptor: MasksPaths, *replies: bytes) -> list[Any]:
    """What tables show of a find and of the batches that follow."""
    link = new_link(MongodbWire(), interceptor)
    reading = RecordedResults(MongodbResults())
    found: list[Any] = []
    for number, reply in enumerate(replies, 1):
        asked = mg.command("find", "c", 1) if number == 1 else mg.command("getMore", Int64(5), number, collection="c")
        link.receive(Side.CLIENT, asked)
        for effect in link.receive(Side.TARGET, reply):
            if isinstance(effect, Record):
                found += [result for event in effect.events for result in reading.take(event)]
    return found + list(reading.rest())


def masked(found: list[Any]) -> list[tuple[tuple[str | None, ...], tuple[int, ...]]]:
    """Each row, and the numbers of its masked cells."""
    return [(row.cells, tuple(column for column, _ in row.masks)) for row in found if isinstance(row, Row)]


def test_mark_of_a_path_belongs_to_the_cell_of_its_top_level_field() -> None:
    documents: list[dict[str, Any]] = [
        {"_id": 1, "name": "ann", "address": {"zip": "1000", "city": "x"}},
        {"_id": 2, "address": {"city": "y"}},
        {"_id": 3, "zip": "no", "address": {"zip": "3000"}},
    ]
    found = results(MasksPaths(("address.zip",)), mg.batch(*documents))
    assert found[0] == ResultColumns(("_id", "name", "address", "zip"), ("int", "string", "object", "string"))
    assert masked(found) == [
        (("1", "ann", '{"zip": null, "city": "x"}', None), (2,)),
        (("2", None, '{"city": "y"}', None), ()),
        (("3", None, '{"zip": null}', "no"), (2,)),
    ]


def test_marks_survive_masks_that_change_the_types_of_values() -> None:
    """A value that became null has another column for the wire, and moves the numbers of the columns after it."""
    documents: list[dict[str, Any]] = [{"a": 5, "b": {"c": "x"}, "d": "y"}, {"a": "text", "b": {"c": None}, "d": "z"}]
    found = results(MasksPaths(("a", "d")), mg.batch(*documents))
    assert masked(found) == [((None, '{"c": "x"}', None), (0, 2)), ((None, '{"c": null}', None), (0, 2))]


def test_rule_about_a_whole_field_masks_the_column_and_one_about_a_part_does_not() -> None:
    document = {"a": "x", "b": {"c": "y"}}
    (columns, *_) = results(MasksPaths(("a", "b.c"), whole=True), mg.batch(document))
    assert columns == ResultColumns(("a", "b"), (None, "object"), (RULE, None))


def test_marks_of_later_batches_belong_to_the_columns_of_the_first() -> None:
    found = results(
        MasksPaths(("b.c", "new")),
        mg.batch({"a": 1, "b": {"c": "x"}}, cursor=5),
        mg.batch({"new": "x", "b": {"c": "y"}}, {"a": 2}, to=2, more=True),
    )
    assert found[0] == ResultColumns(("a", "b", OTHER_FIELDS), ("int", "object", "object"))
    assert masked(found) == [
        (("1", '{"c": null}', None), (1,)),
        ((None, '{"c": null}', '{"new": null}'), (1, 2)),
        (("2", None, None), ()),
    ]


def test_two_masked_paths_of_one_field_are_one_masked_cell() -> None:
    found = results(MasksPaths(("a.b", "a.c", "a.d.e")), mg.batch({"a": {"b": "x", "c": 5, "d": [{"e": "y"}]}}))
    assert masked(found) == [(('{"b": null, "c": null, "d": [{"e": null}]}',), (0,))]


def test_masked_value_of_distinct_is_marked() -> None:
    link = new_link(MongodbWire(), MasksPaths(("email",)))
    link.receive(Side.CLIENT, mg.command("distinct", "c", 1, key="email"))
    reading = RecordedResults(MongodbResults())
    effects = link.receive(Side.TARGET, mg.ok(values=["ann@example.com", "bob@example.com"]))
    events = [event for effect in effects if isinstance(effect, Record) for event in effect.events]
    assert masked([result for event in events for result in reading.take(event)]) == [((None,), (0,)), ((None,), (0,))]
