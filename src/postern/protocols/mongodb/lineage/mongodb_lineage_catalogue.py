"""The collections and views of one snapshot of a target's catalogue, as lineage needs them."""

from __future__ import annotations

from typing import Final

from postern.domain.targets.target_schema import Key, Relation, TargetSchema
from postern.inspection.lineage.scope import WorkBudget
from postern.protocols.mongodb.dialect.mongodb_drafts import MAX_VIEWS
from postern.protocols.mongodb.dialect.mongodb_json import Document, UnreadableCommand
from postern.protocols.mongodb.dialect.mongodb_view_definitions import read_definition
from postern.protocols.mongodb.lineage.mongodb_expressions import ExpressionScope
from postern.protocols.mongodb.lineage.mongodb_stages import PipelineReader
from postern.protocols.mongodb.lineage.mongodb_value_trees import (
    UNKNOWN_VALUE,
    DocumentValue,
    StoredValue,
    ViewValue,
)

# Databases of the server. They hold copies of documents of all collections, such as the log of changes.
_OF_SERVER: Final = frozenset({"local", "config", "admin"})

Definition = tuple[str, list[Document]]


class MongodbLineageCatalogue:
    """Definitions of views, each parsed once, and the fields of collections."""

    def __init__(self, schema: TargetSchema) -> None:
        self._schema = schema
        self._definitions: dict[Key, Definition | None] = {}
        self._leaves: dict[Key, frozenset[str]] = {}

    def find(self, key: Key) -> Relation | None:
        """Return a collection or view; None for one that the snapshot does not have, which could be a view."""
        database, name = key
        if database in _OF_SERVER or name.startswith("system."):
            return None
        return self._schema.relations.get(key)

    def definition(self, relation: Relation) -> Definition | None:
        """Return the definition of a view; None if it is not valid."""
        key = (relation.schema, relation.name)
        if key not in self._definitions:
            try:
                self._definitions[key] = read_definition(relation.definition)
            except UnreadableCommand:
                self._definitions[key] = None
        return self._definitions[key]

    def leaves(self, relation: Relation) -> frozenset[str]:
        """Return the fields in which the catalogue has no others."""
        key = (relation.schema, relation.name)
        leaves = self._leaves.get(key)
        if leaves is None:
            columns = frozenset(relation.columns)
            parents = {column[:place] for column in columns for place, sign in enumerate(column) if sign == "."}
            leaves = self._leaves[key] = columns - parents
        return leaves


class CommandCollections:
    """The collections that one command reads; see `CollectionSource`."""

    def __init__(self, catalogue: MongodbLineageCatalogue, work: WorkBudget) -> None:
        self._catalogue = catalogue
        self._work = work
        self._documents: dict[Key, DocumentValue] = {}
        self._reading: list[Key] = []

    def documents(self, database: str, name: str) -> DocumentValue:
        key = (database, name)
        documents = self._documents.get(key)
        if documents is None:
            relation = self._catalogue.find(key)
            if relation is None or key in self._reading or len(self._reading) >= MAX_VIEWS:
                return UNKNOWN_VALUE
            self._reading.append(key)
            try:
                documents = self._documents[key] = self._read(relation)
            finally:
                self._reading.pop()
        return documents

    def _read(self, relation: Relation) -> DocumentValue:
        stored = StoredValue(relation.schema, relation.name, self._catalogue.leaves(relation))
        if not relation.definition:
            return stored
        definition = self._catalogue.definition(relation)
        if definition is None:
            return UNKNOWN_VALUE
        collection, pipeline = definition
        scope = ExpressionScope(self.documents(relation.schema, collection), self._work, {})
        return ViewValue(PipelineReader(self, relation.schema).read(pipeline, scope, collection), stored)
