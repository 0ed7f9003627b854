"""Definitions of views, as the catalogue has them: `{"viewOn": "customers", "pipeline": [{"$limit": 9}]}`."""

from __future__ import annotations

from postern.protocols.mongodb.dialect.mongodb_json import (
    Document,
    UnreadableCommand,
    as_document,
    as_documents,
    read_json,
)


def read_definition(text: str) -> tuple[str, list[Document]]:
    """Return the collection that a view is on, and its pipeline. Raises UnreadableCommand."""
    document = as_document(read_json(text), "the definition")
    collection = document.get("viewOn")
    if not isinstance(collection, str) or not collection:
        raise UnreadableCommand("the definition does not name a collection")
    return collection, as_documents(document.get("pipeline", []), "the pipeline")
