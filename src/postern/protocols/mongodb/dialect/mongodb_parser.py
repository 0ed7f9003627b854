"""The parser of MongoDB's commands: what each would do.

A text is one command in Extended JSON (`mongodb_json`). Commands, stages and operators that are not listed are of
unknown effect, and so is code.
"""

from __future__ import annotations

from typing import Final

from postern.domain.rules.statement import Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.protocols.mongodb.dialect.mongodb_command_effects import judge_command, name_of
from postern.protocols.mongodb.dialect.mongodb_drafts import MongodbDraft
from postern.protocols.mongodb.dialect.mongodb_json import UnreadableCommand, read_command
from postern.protocols.mongodb.dialect.mongodb_pipelines import PipelineJudge
from postern.protocols.mongodb.dialect.mongodb_view_definitions import read_definition

_MAX_TAG: Final = 64  # characters of a name that clients can choose


class MongodbParser(Shared):
    """The port `Parser`, for servers 4.4 to 8.0."""

    dialect = "mongodb"
    shapes = None

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        if not text.strip():
            return ()
        return self._cache.of(text, schema, _judge_text)


def _judge_text(text: str, schema: TargetSchema | None) -> tuple[Statement, ...]:
    try:
        command = read_command(text)
    except UnreadableCommand as error:
        return (unknown(str(error)),)
    draft = MongodbDraft(name_of(command)[:_MAX_TAG], schema, _judge_view)
    try:
        judge_command(draft, command)
    except UnreadableCommand as error:
        draft.add_unknown(str(error))
    except (RecursionError, MemoryError):
        draft.add_unknown("it is nested too deeply")
    return (draft.finish(),)


def _judge_view(draft: MongodbDraft, database: str, definition: str) -> None:
    try:
        collection, pipeline = read_definition(definition)
        PipelineJudge(draft, database).judge(pipeline, collection)
    except UnreadableCommand:
        draft.untraced = draft.untraced or "the collections that a view reads are unknown: its definition is not valid"
