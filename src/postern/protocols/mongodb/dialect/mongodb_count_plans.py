"""How the documents that a command would change are counted before it runs: by the filters of its parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from postern.domain.rules.row_count import MOST_ROWS, CountPlan, Named
from postern.protocols.mongodb.dialect.mongodb_command_effects import name_of
from postern.protocols.mongodb.dialect.mongodb_drafts import split_namespace
from postern.protocols.mongodb.dialect.mongodb_json import (
    CommandText,
    Document,
    UnreadableCommand,
    as_document,
    as_documents,
    is_true,
    number_of,
    read_command,
)
from postern.protocols.mongodb.dialect.mongodb_operator_checks import check_query
from postern.protocols.mongodb.dialect.mongodb_pipelines import find_place

_NO_COUNT: Final = frozenset({"$near", "$nearSphere", "$where"})  # operators that `count` does not take
_UPSERT: Final = "it inserts a document if none matches"
# Stages that return one document for each.
_EACH: Final = frozenset(
    {
        *("$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$sort", "$lookup"),
        *("$graphLookup", "$setWindowFields", "$fill"),
    }
)


@dataclass(frozen=True, slots=True)
class DocumentCountPlan(CountPlan):
    """One part of a command. The target is a database and a collection. `most` limits what the filter matches."""

    query: Document = field(default_factory=dict)
    most: int = MOST_ROWS + 1
    skip: int = 0
    collation: Document | None = None

    @property
    def database(self) -> str:
        return self.target[0]

    @property
    def collection(self) -> str:
        return self.target[1]

    def query_text(self, max_millis: int) -> str:
        """Return the command that counts, as text."""
        command: dict[str, object] = {"count": self.collection, "query": self.query, "limit": self.most}
        if self.skip:
            command["skip"] = self.skip
        if self.collation is not None:
            command["collation"] = self.collation
        return json.dumps({**command, "maxTimeMS": max_millis, "$db": self.database}, ensure_ascii=False)


def count_plans(text: str) -> list[DocumentCountPlan]:
    """Return the parts of a command that changes documents; none for other commands, and for what cannot be read."""
    try:
        command = read_command(text)
        plan = _PLANS.get(name_of(command))
        return [] if plan is None else [_check(each) for each in plan(command)]
    except (UnreadableCommand, RecursionError, MemoryError):
        return []


def _check(plan: DocumentCountPlan) -> DocumentCountPlan:
    if plan.why_not or plan.known is not None:
        return plan
    why = check_query(plan.query)
    if not why and (refused := sorted(_NO_COUNT & set(_names_in(plan.query)))):
        why = f"its filter has {refused[0]}"
    if not why and any(text.startswith("$$") and text not in ("$$ROOT", "$$NOW") for text in _texts_in(plan.query)):
        why = "its filter uses variables"
    return DocumentCountPlan(plan.action, plan.target, why) if why else plan


def _names_in(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
        for each in value.values():
            yield from _names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _names_in(each)


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(each)


def _of_collection(
    action: str, place: tuple[str, str], part: Document, query: object, *, is_many: bool
) -> DocumentCountPlan:
    notes = (_UPSERT,) if is_true(part.get("upsert")) else ()
    collation = part.get("collation")
    return DocumentCountPlan(
        action,
        place,
        query=as_document(query, "a filter"),
        most=MOST_ROWS + 1 if is_many else 1,
        collation=None if collation is None else as_document(collation, "collation"),
        notes=notes,
    )


def _updates(command: CommandText) -> Iterator[DocumentCountPlan]:
    place = (command.database, command.collection)
    for each in command.documents("updates"):
        yield _of_collection("update", place, each, each.get("q"), is_many=is_true(each.get("multi")))


def _deletes(command: CommandText) -> Iterator[DocumentCountPlan]:
    place = (command.database, command.collection)
    for each in command.documents("deletes"):
        yield _of_collection("delete", place, each, each.get("q"), is_many=number_of(each.get("limit")) != 1)


def _inserts(command: CommandText) -> Iterator[DocumentCountPlan]:
    number = len(command.documents("documents"))
    yield DocumentCountPlan("insert", (command.database, command.collection), known=number)


def _find_and_modify(command: CommandText) -> Iterator[DocumentCountPlan]:
    action = "delete" if is_true(command.fields.get("remove")) else "update"
    place = (command.database, command.collection)
    yield _of_collection(action, place, command.fields, command.fields.get("query"), is_many=False)


def _bulk_write(command: CommandText) -> Iterator[DocumentCountPlan]:
    places = [split_namespace(each.get("ns")) for each in command.documents("nsInfo")]
    for each in command.documents("ops"):
        action = next(iter(each), "")
        index = number_of(each.get(action))
        place = places[int(index)] if index is not None and 0 <= index < len(places) else None
        if place is None:
            raise UnreadableCommand("an operation names no collection")
        if action == "insert":
            yield DocumentCountPlan("insert", place, known=1)
        else:
            yield _of_collection(action, place, each, each.get("filter"), is_many=is_true(each.get("multi")))


def _aggregate(command: CommandText) -> Iterator[DocumentCountPlan]:
    """Plan the count of a pipeline that writes: of the documents that reach its last stage."""
    stages = as_documents(command.fields.get("pipeline"), "the pipeline")
    last = stages[-1] if stages else {}
    action = next(iter(last), "")
    if action not in ("$out", "$merge"):
        return
    spec = last[action]
    target = find_place(
        spec.get("into") if action == "$merge" and isinstance(spec, Mapping) else spec, command.database
    )
    if target is None:
        raise UnreadableCommand("the target is not understood")
    read = command.collection if isinstance(command.argument, str) else ""
    queries: list[object] = []
    skip, most, is_cut, why = 0, MOST_ROWS + 1, False, "" if read else "it reads no collection"
    for stage in stages[:-1]:
        name, operand = next(iter(stage.items()), ("", None))
        number = int(number_of(operand) or 0)
        if name == "$match" and not is_cut:
            queries.append(operand)
        elif name == "$skip" and most > MOST_ROWS:
            skip, is_cut = skip + number, True
        elif name == "$limit":
            most, is_cut = min(most, number), True
        elif name not in _EACH:
            why = f"its stage {name[:64]} changes the number of documents"
        elif name not in ("$sort", "$lookup"):
            is_cut = True  # a later $match is about other fields
    notes = (f"counted in {command.database}.{read}",)
    query: Document = {"$and": queries} if queries else {}
    if most < 1:
        why = "its limit is not understood"
    source = (command.database, read)
    plan = DocumentCountPlan(action[1:], source, why, query={} if why else query, most=most, skip=skip)
    checked = _check(plan)
    yield _PipelinePlan(
        checked.action, target, checked.why_not, notes=notes, query=checked.query, most=most, skip=skip, source=source
    )


@dataclass(frozen=True, slots=True)
class _PipelinePlan(DocumentCountPlan):
    """A pipeline that writes to one collection what it reads from another."""

    source: Named = ("", "")

    def query_text(self, max_millis: int) -> str:
        plan = DocumentCountPlan(self.action, self.source, query=self.query, most=self.most, skip=self.skip)
        return plan.query_text(max_millis)


_PLANS: Final[Mapping[str, Callable[[CommandText], Iterator[DocumentCountPlan]]]] = {
    "aggregate": _aggregate,
    "bulkWrite": _bulk_write,
    "delete": _deletes,
    "findAndModify": _find_and_modify,
    "insert": _inserts,
    "update": _updates,
}
