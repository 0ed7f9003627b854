"""Effects of aggregation pipelines: what each stage reads and writes, and which collections come out as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from postern.domain.rules.statement import EVERYTHING, Effect, ObjectName
from postern.protocols.mongodb.dialect import mongodb_operators as operators
from postern.protocols.mongodb.dialect.mongodb_conditions import is_always_true
from postern.protocols.mongodb.dialect.mongodb_drafts import MongodbDraft
from postern.protocols.mongodb.dialect.mongodb_json import (
    Document,
    as_document,
    as_documents,
    is_scalar,
    is_true,
    number_of,
)
from postern.protocols.mongodb.dialect.mongodb_operator_checks import (
    check_accumulators,
    check_expression,
    check_projection,
    check_query,
    check_window_fields,
    describe_unknown_operator,
)

_NO_COLLECTION: Final = ""


@dataclass
class PipelineScans:
    """Collections of which all documents may be in the output of a pipeline so far.

    `open` are those whose documents are separate, so that a later limit is a limit. `closed` are inside of other
    documents, in arrays.
    """

    open: set[ObjectName] = field(default_factory=set)
    closed: set[ObjectName] = field(default_factory=set)

    def limit(self) -> None:
        self.open = set()

    def close(self) -> None:
        self.closed |= self.open
        self.open = set()

    @property
    def all(self) -> set[ObjectName]:
        return self.open | self.closed


class PipelineJudge:
    """Judge of one pipeline, and of those inside of it. Raises UnreadableCommand for what is not a pipeline."""

    def __init__(self, draft: MongodbDraft, database: str) -> None:
        self._draft = draft
        self._database = database

    def judge(self, pipeline: object, collection: str = _NO_COLLECTION) -> set[ObjectName]:
        """Add the effects of a pipeline on a collection. Return the collections that it reads as a whole."""
        return self._judge(pipeline, collection).all

    def _judge(self, pipeline: object, collection: str) -> PipelineScans:
        stages = as_documents(pipeline, "the pipeline")
        scans = PipelineScans()
        if collection:
            scans.open.add(self._draft.add_read(self._database, collection))
        else:
            self._draft.add(Effect.READ)
        self.judge_stages(stages, collection, scans)
        return scans

    def judge_stages(self, stages: Sequence[Document], collection: str, scans: PipelineScans) -> None:
        for stage in stages:
            if len(stage) != 1:
                self._draft.add_unknown("a stage of the pipeline does not have exactly one field")
                continue
            name, spec = next(iter(stage.items()))
            if name in operators.ADMIN_STAGES:
                self._draft.add(Effect.ADMIN)
                scans.limit()
            elif name not in operators.STAGES and name not in operators.WRITING_STAGES:
                self._draft.add_unknown(describe_unknown_operator(name, "stage"))
            if (judge := _STAGES.get(name)) is not None:
                judge(self, spec, collection, scans)

    def _check(self, reason: str) -> None:
        self._draft.add_unknown(reason)

    # Stages about documents

    def _match(self, spec: object, collection: str, scans: PipelineScans) -> None:
        self._check(check_query(spec))
        if not is_always_true(spec):
            scans.limit()

    def _limit(self, spec: object, collection: str, scans: PipelineScans) -> None:
        scans.limit()

    def _project(self, spec: object, collection: str, scans: PipelineScans) -> None:
        self._check(check_projection(spec))

    def _add_fields(self, spec: object, collection: str, scans: PipelineScans) -> None:
        self._check(check_expression(spec))

    def _group(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document = as_document(spec, "$group")
        key = document.get("_id")
        fields = {name: each for name, each in document.items() if name != "_id"}
        self._check(check_expression(key) or check_accumulators(fields))
        collects = any(_collects(each) for each in fields.values())
        if collects:
            scans.close()
        elif is_scalar(key) and not (isinstance(key, str) and key.startswith("$")):
            scans.limit()

    def _bucket(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document = as_document(spec, "its buckets")
        output = document.get("output")
        self._check(check_expression(document.get("groupBy")))
        self._check("" if output is None else check_accumulators(output))
        if isinstance(output, Mapping) and any(_collects(each) for each in output.values()):
            scans.close()

    def _window(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document = as_document(spec, "$setWindowFields")
        self._check(check_expression(document.get("partitionBy")) or check_window_fields(document.get("output")))

    def _fill(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document = as_document(spec, "$fill")
        output = as_document(document.get("output"), "its output")
        values = [each.get("value") for each in output.values() if isinstance(each, Mapping)]
        self._check(check_expression([document.get("partitionBy"), *values]))

    def _geo_near(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document = as_document(spec, "$geoNear")
        self._check(check_query(document.get("query")) or check_expression(document.get("near")))
        if "maxDistance" in document or not is_always_true(document.get("query")):
            scans.limit()

    # Stages with other pipelines

    def _facet(self, spec: object, collection: str, scans: PipelineScans) -> None:
        inside: set[ObjectName] = set()
        for pipeline in as_document(spec, "$facet").values():
            branch = PipelineScans(set(scans.open), set(scans.closed))
            self.judge_stages(as_documents(pipeline, "a facet"), collection, branch)
            inside |= branch.all
        scans.open, scans.closed = set(), inside

    def _lookup(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document = as_document(spec, "$lookup")
        self._check(check_expression(document.get("let")))
        judge, name = self._other(document.get("from"), "$lookup")
        read = judge._judge(document.get("pipeline", []), name)
        if "localField" not in document:
            scans.closed |= read.all  # in each document, so that a limit does not help
        elif scans.open:
            scans.open |= read.all

    def _graph_lookup(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document = as_document(spec, "$graphLookup")
        restriction = document.get("restrictSearchWithMatch")
        self._check(check_expression(document.get("startWith")) or check_query(restriction))
        judge, name = self._other(document.get("from"), "$graphLookup")
        read = judge._judge([], name)
        if scans.open and is_always_true(restriction):
            scans.open |= read.all

    def _union(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document: Document = {"coll": spec} if isinstance(spec, str) else as_document(spec, "$unionWith")
        named = {"db": document["db"], "coll": document.get("coll")} if "db" in document else document.get("coll")
        judge, name = self._other(named, "$unionWith")
        read = judge._judge(document.get("pipeline", []), name)
        scans.open |= read.open
        scans.closed |= read.closed

    def _other(self, named: object, stage: str) -> tuple[PipelineJudge, str]:
        """Return the judge for another collection, and its name; empty where the stage names none."""
        if named is None:
            return self, _NO_COLLECTION
        place = find_place(named, self._database)
        if place is None:
            self._draft.add_unknown(f"the collection of {stage} is not understood")
            return self, _NO_COLLECTION
        database, name = place
        return (self if database == self._database else PipelineJudge(self._draft, database)), name

    def _redact(self, spec: object, collection: str, scans: PipelineScans) -> None:
        self._check(check_expression(spec))

    # Stages that write

    def _out(self, spec: object, collection: str, scans: PipelineScans) -> None:
        place = find_place(spec, self._database)
        self._draft.add(Effect.WRITE, Effect.DDL)  # it replaces the whole collection
        if place is None:
            self._draft.add_unknown("the collection of $out is not understood")
        else:
            self._draft.add_write(*place)

    def _merge(self, spec: object, collection: str, scans: PipelineScans) -> None:
        document: Document = {"into": spec} if isinstance(spec, str) else as_document(spec, "$merge")
        place = find_place(document.get("into"), self._database)
        self._draft.add(Effect.WRITE)
        if place is None:
            self._draft.add_unknown("the collection of $merge is not understood")
        else:
            self._draft.add_write(*place)
        self._check(check_expression(document.get("let")))
        if not isinstance(document.get("whenMatched", ""), str):
            self.judge_stages(as_documents(document["whenMatched"], "whenMatched"), collection, PipelineScans())

    # Stages about the server

    def _change_stream(self, spec: object, collection: str, scans: PipelineScans) -> None:
        scans.limit()
        if is_true(as_document(spec, "$changeStream").get("allChangesForCluster")):
            self._draft.objects.add(EVERYTHING)
        elif not collection:
            self._draft.add_database(self._database)

    def _sessions(self, spec: object, collection: str, scans: PipelineScans) -> None:
        scans.limit()
        document = as_document(spec, "$listLocalSessions")
        if is_true(document.get("allUsers")) or "users" in document:
            self._draft.add(Effect.ADMIN)

    def _search(self, spec: object, collection: str, scans: PipelineScans) -> None:
        if isinstance(spec, Mapping) and "filter" in spec:
            self._check(check_query(spec["filter"]))
        scans.limit()


def _collects(accumulator: object) -> bool:
    return isinstance(accumulator, Mapping) and not operators.COLLECTING.isdisjoint(accumulator)


def find_place(named: object, database: str) -> tuple[str, str] | None:
    """Return database and collection of `"name"` and `{db: …, coll: …}`."""
    if isinstance(named, str):
        return (database, named) if named else None
    if not isinstance(named, Mapping):
        return None
    place = named.get("db", database), named.get("coll")
    if not all(isinstance(part, str) and part for part in place):
        return None
    return str(place[0]), str(place[1])


_Judge = Callable[[PipelineJudge, object, str, PipelineScans], None]

_STAGES: Final[Mapping[str, _Judge]] = {
    "$addFields": PipelineJudge._add_fields,
    "$set": PipelineJudge._add_fields,
    "$documents": PipelineJudge._redact,
    "$redact": PipelineJudge._redact,
    "$replaceRoot": PipelineJudge._redact,
    "$replaceWith": PipelineJudge._redact,
    "$sortByCount": PipelineJudge._redact,
    "$sort": PipelineJudge._redact,
    "$bucket": PipelineJudge._bucket,
    "$bucketAuto": PipelineJudge._bucket,
    "$changeStream": PipelineJudge._change_stream,
    "$collStats": PipelineJudge._limit,
    "$count": PipelineJudge._limit,
    "$facet": PipelineJudge._facet,
    "$fill": PipelineJudge._fill,
    "$geoNear": PipelineJudge._geo_near,
    "$graphLookup": PipelineJudge._graph_lookup,
    "$group": PipelineJudge._group,
    "$indexStats": PipelineJudge._limit,
    "$limit": PipelineJudge._limit,
    "$listLocalSessions": PipelineJudge._sessions,
    "$listSearchIndexes": PipelineJudge._limit,
    "$lookup": PipelineJudge._lookup,
    "$match": PipelineJudge._match,
    "$merge": PipelineJudge._merge,
    "$out": PipelineJudge._out,
    "$project": PipelineJudge._project,
    "$sample": PipelineJudge._limit,
    "$search": PipelineJudge._search,
    "$searchMeta": PipelineJudge._search,
    "$setWindowFields": PipelineJudge._window,
    "$unionWith": PipelineJudge._union,
    "$vectorSearch": PipelineJudge._search,
}


def limits_documents(command: Document) -> bool:
    """Return whether a find is limited to some documents."""
    limit = number_of(command.get("limit", 0))
    return limit != 0 or is_true(command.get("singleBatch"))
