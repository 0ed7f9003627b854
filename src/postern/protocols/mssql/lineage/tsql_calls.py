"""EXEC: what a procedure, or a text that it runs, does to variables and to what the session has."""

from __future__ import annotations

from typing import Final

from postern.domain.rules.statement import Effect
from postern.inspection.lineage.scope import NOTHING, Out, Sources, union
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.protocols.mssql.dialect import tsql_words as words
from postern.protocols.mssql.dialect.tsql_exec import ExecCall
from postern.protocols.mssql.dialect.tsql_texts import is_user_variable, variable_name
from postern.protocols.mssql.lineage.tsql_memory import LOST
from postern.protocols.mssql.lineage.tsql_reading import RunText, TsqlReading

_DEEPEST: Final = 4  # texts that run texts
_ANY: Final = (Out(None, NOTHING, many=True),)


def read_call(reading: TsqlReading, call: ExecCall, run: RunText) -> None:
    sources = union([reading.argument(argument.value) for argument in call.arguments])
    if call.result:
        reading.variables.assign(fold_identifier(call.result), None)
    if call.is_elsewhere:
        _run_unknown(reading, call)
    elif call.runs_text:
        _run_texts(reading, call, sources, run)
    elif call.procedure in words.PROCEDURES:
        _run_own(reading, call, sources)
    else:
        _run_unknown(reading, call)


def _run_unknown(reading: TsqlReading, call: ExecCall) -> None:
    """Record a procedure of the target, which can read and change temporary tables and cursors. Those of the server's
    own that are not listed can run the texts of their arguments: sp_MSforeachtable, for example."""
    if call.procedure.startswith("sp_ms"):
        reading.memory.lose()
    reading.memory.lose_temporary()
    _assign_outputs(reading, call, None)
    reading.answer(LOST)


def _assign_outputs(reading: TsqlReading, call: ExecCall, sources: Sources) -> None:
    for argument in call.arguments:
        for token in argument.value if argument.is_output else ():
            if is_user_variable(token):
                reading.variables.assign(variable_name(token), sources)


def _run_own(reading: TsqlReading, call: ExecCall, sources: Sources) -> None:
    """Analyse one of the server's own procedures, by its effects."""
    effects, memory = words.PROCEDURES[call.procedure], reading.memory
    _assign_outputs(reading, call, None)
    if call.procedure == "sp_set_session_context" and sources != NOTHING:
        memory.change(queried=True)
    if Effect.DDL in effects or Effect.GRANT in effects:
        memory.change(everything=True)
        memory.temps = dict.fromkeys(memory.temps, LOST)  # sp_rename can exchange their columns
    if Effect.ADMIN in effects or call.procedure == "sp_cursorfetch":
        reading.answer(LOST)
    elif Effect.READ in effects:
        reading.answer(_ANY)


def _run_texts(reading: TsqlReading, call: ExecCall, sources: Sources, run: RunText) -> None:
    """Analyse the texts that EXEC or sp_executesql runs. Their variables are their own."""
    texts = call.texts(reading.texts)
    if texts is None or reading.depth >= _DEEPEST:
        reading.memory.lose()
        _assign_outputs(reading, call, None)
        reading.answer(LOST)
        return
    if not reading.is_own_database(call.database):
        reading.memory.change(elsewhere=True)
    outputs: list[Sources] = [reading.control]
    outputs += [run(text, union([sources, reading.control])) for text in texts]
    _assign_outputs(reading, call, union([sources, *outputs]))
