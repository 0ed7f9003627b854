"""What each stage of a pipeline makes of the documents before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from postern.inspection.lineage.scope import NOTHING, Sources, union
from postern.protocols.mongodb.dialect.mongodb_json import (
    Document,
    UnreadableCommand,
    as_document,
    as_documents,
    is_operator,
    is_scalar,
    is_true,
)
from postern.protocols.mongodb.dialect.mongodb_pipelines import find_place
from postern.protocols.mongodb.lineage.mongodb_expressions import ExpressionScope, accumulate, value_of
from postern.protocols.mongodb.lineage.mongodb_projections import project
from postern.protocols.mongodb.lineage.mongodb_value_trees import (
    MISSING,
    UNKNOWN_VALUE,
    BuiltValue,
    ComputedValue,
    DocumentValue,
    choose,
    depend,
    is_field_name,
    put_at,
)


class CollectionSource(Protocol):
    """The documents of collections and views, by name."""

    def documents(self, database: str, name: str) -> DocumentValue: ...


@dataclass(frozen=True, slots=True)
class PipelineReader:
    """Reader of pipelines in one database."""

    collections: CollectionSource
    database: str

    def read(self, pipeline: object, scope: ExpressionScope, collection: str = "") -> DocumentValue:
        """Return the documents that a pipeline returns. Raises UnreadableCommand."""
        for stage in as_documents(pipeline, "the pipeline"):
            scope.work.step()
            if len(stage) != 1:
                return UNKNOWN_VALUE
            name, spec = next(iter(stage.items()))
            change = _STAGES.get(name)
            if change is None:
                return UNKNOWN_VALUE
            scope = scope.with_root(change(self, spec, scope, collection))
        return scope.root

    def _same(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return scope.root

    def _constant(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return ComputedValue(NOTHING)

    # Fields

    def _project(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return project(as_document(spec, "$project"), scope, is_find=False)

    def _add_fields(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return _set_fields(as_document(spec, "its fields"), scope, scope.root)

    def _unset(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        root = scope.root
        for path in spec if isinstance(spec, list) else [spec]:
            if not isinstance(path, str):
                raise UnreadableCommand("$unset does not name fields")
            root = put_at(root, path, MISSING)
        return root

    def _replace(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return value_of(spec, scope)

    def _replace_root(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return value_of(as_document(spec, "$replaceRoot").get("newRoot"), scope)

    def _redact(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        # Its condition is about each document inside of a document, so that a name in it can be of any level.
        condition = value_of(spec, scope).everything
        return scope.root if condition == NOTHING else depend(scope.root, union([condition, scope.root.everything]))

    def _unwind(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        index = spec.get("includeArrayIndex") if isinstance(spec, Mapping) else None
        return (
            put_at(scope.root, index, ComputedValue(NOTHING, is_scalar=True)) if isinstance(index, str) else scope.root
        )

    # Groups

    def _group(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        fields = dict(as_document(spec, "$group"))
        key = value_of(fields.pop("_id", None), scope)
        return BuiltValue({"_id": key, **_accumulate(fields, scope)})

    def _sort_by_count(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return BuiltValue({"_id": value_of(spec, scope), "count": ComputedValue(NOTHING, is_scalar=True)})

    def _count(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return ComputedValue(NOTHING, is_scalar=True)

    def _bucket(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        document = as_document(spec, "its buckets")
        key: DocumentValue = ComputedValue(value_of(document.get("groupBy"), scope).key, is_scalar=True)
        output = document.get("output")
        if output is None:
            return BuiltValue({"_id": key, "count": ComputedValue(NOTHING, is_scalar=True)})
        return BuiltValue({"_id": key, **_accumulate(as_document(output, "its output"), scope)})

    def _bucket_auto(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        value = value_of(as_document(spec, "$bucketAuto").get("groupBy"), scope)
        limit = depend(value, value.key)
        return BuiltValue({"_id": BuiltValue({"min": limit, "max": limit})}, self._bucket(spec, scope, collection))

    def _window(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        document = as_document(spec, "$setWindowFields")
        ordering = as_document(document.get("sortBy"), "sortBy")
        deciding = union(
            [
                value_of(document.get("partitionBy"), scope).key,
                *(scope.root.at_path(path).key for path in ordering),
            ]
        )
        root = scope.root
        for path, each in as_document(document.get("output"), "its output").items():
            functions = {name: operand for name, operand in as_document(each, path).items() if name != "window"}
            values = [accumulate(name, operand, scope) for name, operand in functions.items()]
            root = put_at(root, path, depend(choose(values), deciding, is_steady=True))
        return root

    def _fill(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        root = scope.root
        for path, each in as_document(as_document(spec, "$fill").get("output"), "its output").items():
            old = scope.root.at_path(path)
            rule = as_document(each, path)
            new = value_of(rule["value"], scope) if "value" in rule else ComputedValue(old.sources)
            root = put_at(root, path, old if rule.get("method") == "locf" else choose([old, new]))
        return root

    def _densify(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        path = as_document(spec, "$densify").get("field")
        if not isinstance(path, str):
            raise UnreadableCommand("$densify does not name a field")
        old = scope.root.at_path(path)
        return put_at(scope.root, path, choose([old, ComputedValue(old.sources, is_scalar=True)]))

    def _geo_near(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        document = as_document(spec, "$geoNear")
        key = document.get("key")
        place = scope.root.at_path(key) if isinstance(key, str) else scope.root
        root = scope.root
        for name in ("distanceField", "includeLocs"):
            path = document.get(name)
            if isinstance(path, str):
                root = put_at(root, path, ComputedValue(place.everything, is_scalar=name == "distanceField"))
        return root

    # Other collections

    def _facet(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        facets = as_document(spec, "$facet")
        for name in facets:
            _check_name(name)
        return BuiltValue({name: self.read(each, scope, collection) for name, each in facets.items()})

    def _lookup(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        document = as_document(spec, "$lookup")
        reader, name, root = self._other(document.get("from"))
        variables = {
            variable: value_of(each, scope) for variable, each in as_document(document.get("let"), "let").items()
        }
        pipeline = document.get("pipeline", [])
        deciding = [
            variables[used].at_path(path).key if path else variables[used].key
            for used, _, path in (text[2:].partition(".") for text in _find_variables(pipeline))
            if used in variables
        ]
        for field, value in (("localField", scope.root), ("foreignField", root)):
            path = document.get(field)
            if isinstance(path, str):
                deciding.append(value.at_path(path).key)
        inner = scope.with_root(root).bind(variables)
        documents = reader.read(pipeline, inner, name)
        return _put(document, "as", depend(documents, union(deciding), is_steady=True), scope)

    def _graph_lookup(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        document = as_document(spec, "$graphLookup")
        _, _, root = self._other(document.get("from"))
        deciding: list[Sources] = [value_of(document.get("startWith"), scope).key]
        for field in ("connectFromField", "connectToField"):
            path = document.get(field)
            if isinstance(path, str):
                deciding.append(root.at_path(path).key)
        depth = document.get("depthField")
        if isinstance(depth, str):
            root = put_at(root, depth, ComputedValue(NOTHING, is_scalar=True))
        return _put(document, "as", depend(root, union(deciding), is_steady=True), scope)

    def _union(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        document: Document = {"coll": spec} if isinstance(spec, str) else as_document(spec, "$unionWith")
        named = {"db": document["db"], "coll": document.get("coll")} if "db" in document else document.get("coll")
        reader, name, root = self._other(named)
        return choose([scope.root, reader.read(document.get("pipeline", []), scope.with_root(root), name)])

    def _other(self, named: object) -> tuple[PipelineReader, str, DocumentValue]:
        """Return the reader for another collection, its name, and its documents; none where no collection is named."""
        if named is None:
            return self, "", MISSING
        place = find_place(named, self.database)
        if place is None:
            raise UnreadableCommand("a collection is not understood")
        database, name = place
        return PipelineReader(self.collections, database), name, self.collections.documents(database, name)

    def _documents(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        return value_of(spec, scope)

    def _change_stream(self, spec: object, scope: ExpressionScope, collection: str) -> DocumentValue:
        """Return change events. Those of a database or a cluster have documents of any collection."""
        cluster = is_true(as_document(spec, "$changeStream").get("allChangesForCluster"))
        document = self.collections.documents(self.database, collection) if collection and not cluster else None
        changed = UNKNOWN_VALUE if document is None else document
        token = ComputedValue(changed.at("_id").key, is_scalar=True)
        description = BuiltValue({"updatedFields": changed}, ComputedValue(NOTHING))
        return BuiltValue(
            {
                "_id": token,  # holds the key of the document
                "fullDocument": changed,
                "fullDocumentBeforeChange": changed,
                "documentKey": changed,
                "updateDescription": description,
            },
            ComputedValue(NOTHING),
        )


def _set_fields(spec: Document, scope: ExpressionScope, root: DocumentValue, before: str = "") -> DocumentValue:
    """Set fields, also those of documents in the specification: `{a: {b: 1}}` leaves other fields of `a`."""
    for name, each in spec.items():
        path = before + name
        if isinstance(each, Mapping) and each and not is_operator(each) and not is_scalar(each):
            root = _set_fields(each, scope, root, f"{path}.")
        else:
            root = put_at(root, path, value_of(each, scope))
    return root


def _find_variables(value: object) -> Iterator[str]:
    """Find all names of variables in a pipeline."""
    if isinstance(value, str):
        if value.startswith("$$"):
            yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _find_variables(each)


def _put(document: Document, field: str, value: DocumentValue, scope: ExpressionScope) -> DocumentValue:
    path = document.get(field)
    if not isinstance(path, str):
        raise UnreadableCommand(f"the field {field} is missing")
    return put_at(scope.root, path, value)


def _check_name(name: str) -> None:
    if not is_field_name(name):
        raise UnreadableCommand("a new field has an unusual name")


def _accumulate(fields: Document, scope: ExpressionScope) -> dict[str, DocumentValue]:
    values: dict[str, DocumentValue] = {}
    for name, each in fields.items():
        _check_name(name)
        accumulator = as_document(each, name)
        if len(accumulator) != 1:
            raise UnreadableCommand("a field is not computed by one accumulator")
        operator, operand = next(iter(accumulator.items()))
        values[name] = accumulate(operator, operand, scope)
    return values


_Change = Callable[[PipelineReader, object, ExpressionScope, str], DocumentValue]

_STAGES: Final[Mapping[str, _Change]] = {
    **dict.fromkeys(
        ("$match", "$sort", "$limit", "$skip", "$sample", "$search", "$vectorSearch"), PipelineReader._same
    ),
    **dict.fromkeys(("$out", "$merge", "$changeStreamSplitLargeEvent"), PipelineReader._same),
    **dict.fromkeys(
        ("$collStats", "$indexStats", "$listSearchIndexes", "$listLocalSessions"), PipelineReader._constant
    ),
    "$addFields": PipelineReader._add_fields,
    "$set": PipelineReader._add_fields,
    "$project": PipelineReader._project,
    "$unset": PipelineReader._unset,
    "$replaceRoot": PipelineReader._replace_root,
    "$replaceWith": PipelineReader._replace,
    "$redact": PipelineReader._redact,
    "$unwind": PipelineReader._unwind,
    "$group": PipelineReader._group,
    "$sortByCount": PipelineReader._sort_by_count,
    "$count": PipelineReader._count,
    "$bucket": PipelineReader._bucket,
    "$bucketAuto": PipelineReader._bucket_auto,
    "$setWindowFields": PipelineReader._window,
    "$fill": PipelineReader._fill,
    "$densify": PipelineReader._densify,
    "$geoNear": PipelineReader._geo_near,
    "$facet": PipelineReader._facet,
    "$lookup": PipelineReader._lookup,
    "$graphLookup": PipelineReader._graph_lookup,
    "$unionWith": PipelineReader._union,
    "$documents": PipelineReader._documents,
    "$changeStream": PipelineReader._change_stream,
}
