"""`bulkWrite` of collections, as the drivers cut it into commands.

Ordered operations are sent in runs of the same kind. Others are sent as all inserts, all updates, all deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from postern.protocols.mongodb.queries import mongodb_shell_options as o
from postern.protocols.mongodb.queries.mongodb_shell_options import Document

MAX_OPERATIONS: Final = 100_000  # of a command, as servers allow

_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "insert": ("insert", "documents"),
    "update": ("update", "updates"),
    "delete": ("delete", "deletes"),
}
_UPDATE: Final = {**o.UPDATE_STATEMENT, "filter": "q"}
_DELETE: Final = {**o.DELETE_STATEMENT, "filter": "q"}


def bulk_write(collection: str, operations: Sequence[Document], options: Document, *, ordered: bool) -> list[Document]:
    """Return the commands. Raises ValueError."""
    runs: list[tuple[str, list[Document]]] = []
    if not ordered:
        runs = [(kind, []) for kind in _KINDS]
    for operation in operations:
        kind, statement = _statement(operation)
        if not ordered:
            next(statements for name, statements in runs if name == kind).append(statement)
        elif runs and runs[-1][0] == kind:
            runs[-1][1].append(statement)
        else:
            runs.append((kind, [statement]))
    documents: list[Document] = []
    for kind, statements in runs:
        if len(statements) > MAX_OPERATIONS:
            raise ValueError(f"a bulk write has at most {MAX_OPERATIONS:,} operations of a kind")
        if statements:
            name, field = _KINDS[kind]
            fields = {key: value for key, value in options.items() if key != "let" or kind != "insert"}
            documents.append({name: collection, field: statements, "ordered": ordered, **fields})
    return documents


def _statement(operation: Document) -> tuple[str, Document]:
    """Return the kind of an operation, and its statement."""
    if len(operation) != 1:
        raise ValueError("each operation is a document with one field, such as insertOne")
    ((name, content),) = operation.items()
    content = o.document_of(content, name)
    if name == "insertOne":
        if set(content) != {"document"}:
            raise ValueError("insertOne has a document")
        return "insert", o.with_ids([o.document_of(content["document"], "the document")])[0]
    if name in ("updateOne", "updateMany"):
        return "update", _update(content, "update", {"multi": True} if name == "updateMany" else {}, replaces=False)
    if name == "replaceOne":
        return "update", _update(content, "replacement", {}, replaces=True)
    if name in ("deleteOne", "deleteMany"):
        fields = o.fields_of(content, _DELETE)
        query = o.document_of(fields.pop("q", None), "the filter")
        return "delete", {"q": query, "limit": int(name == "deleteOne"), **fields}
    raise ValueError(f"{name!r} is not an operation of bulk writes")


def _update(content: Document, name: str, extra: Document, *, replaces: bool) -> Document:
    content = dict(content)
    update = o.check_update(content.pop(name, None), replaces=replaces)
    fields = o.fields_of(content, _UPDATE)
    query = o.document_of(fields.pop("q", None), "the filter")
    return {"q": query, "u": update, **extra, **fields}
