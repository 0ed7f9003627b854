"""Translation of sqlglot's tree of T-SQL to relational terms (see `inspection.lineage.tree_translation`): also APPLY,
OUTPUT, changes, variables, and the documents of FOR XML and FOR JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import WorkBudget
from postern.inspection.lineage.tree_translation import TreeExpressions, TreeQueries, unknown_function_name
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.protocols.mssql.dialect.tsql_texts import SERVER_VARIABLES
from postern.protocols.mssql.lineage.tsql_builtins import CALM_VARIABLES, IDENTITY_VARIABLES
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import OTHER_DATABASE, TsqlState
from postern.protocols.mssql.lineage.tsql_names import column_name
from postern.protocols.mssql.lineage.tsql_spelling import ACTION, TEMPORARY, SpelledTsql


@dataclass(frozen=True, slots=True)
class TsqlContext:
    """What a translation depends on. `knows_table` says whether a name without a schema may be that of a table."""

    state: TsqlState
    work: WorkBudget
    knows_table: Callable[[str], bool]


class TsqlExpressions(TreeExpressions):
    """Translates expressions. `variables` are the spellings of those in the text."""

    def __init__(self, context: TsqlContext, variables: dict[str, str], query: Callable[[exp.Expr], rel.Query]) -> None:
        super().__init__(context.work, query)
        self._context = context
        self._variables = variables

    def table_text(self, text: str) -> str:
        """Return a name as it was written, with the # of a temporary table."""
        return text.replace(TEMPORARY, "#")

    def column_text(self, text: str) -> str:
        return column_name(text)

    def variable_name(self, node: exp.Expr) -> str:
        """Return the name of a variable with its @, as it was written; empty for anything else."""
        if not isinstance(node, exp.Parameter) or not isinstance(node.this, exp.Var):
            return ""
        return self._variables.get(node.this.name, "")

    def _add_own(self, node: exp.Expr, expressions: list[rel.Expression]) -> bool:
        if isinstance(node, exp.Parameter):
            expressions.append(self._variable(self.variable_name(node)))
            return True
        return unknown_function_name(node) == ACTION

    def _variable(self, name: str) -> rel.Expression:
        state, folded = self._context.state, fold_identifier(name)
        if not name:
            return rel.UNKNOWABLE
        if folded not in SERVER_VARIABLES:
            return rel.VariableValue(folded)
        if folded in IDENTITY_VARIABLES:
            return rel.UNKNOWABLE if state.numbered or state.lost else rel.CONSTANT
        is_calm = folded in CALM_VARIABLES or not (state.queried or state.lost)
        return rel.CONSTANT if is_calm else rel.UNKNOWABLE


class TsqlQueries(TreeQueries):
    """The T-SQL front end of relational terms."""

    expressions: TsqlExpressions

    def __init__(self, context: TsqlContext, spelled: SpelledTsql) -> None:
        super().__init__(context.work)
        self._context = context
        self._ctes = _cte_names(spelled.tree)
        self.expressions = TsqlExpressions(context, spelled.variables, self.query)

    def assigned_variable(self, value: exp.Expr) -> str:
        """Return the variable that an element of a list assigns, as in `SELECT @a = …`; empty if none."""
        return self.expressions.variable_name(value.this) if isinstance(value, exp.EQ) else ""

    def table_name(self, table: exp.Expr) -> rel.TableName | None:
        """Return the name of a table, view, temporary table or table variable; None for anything else."""
        if not isinstance(table, exp.Table):
            return None
        alias = self.alias(table)
        variable = self.expressions.variable_name(table.this)
        if variable:
            return rel.TableName(fold_identifier(variable), "", alias)
        if not isinstance(table.this, exp.Identifier):
            return None
        name, schema, database = map(
            self.expressions.table_name, (table.this, table.args.get("db"), table.args.get("catalog"))
        )
        if name.startswith("#"):
            return rel.TableName(name, "", alias)
        if database:
            return rel.TableName(name, f"{database}{OTHER_DATABASE}{schema}", alias)
        cte = self._ctes.get(fold_identifier(name))
        if not schema and cte is not None and not self._context.knows_table(name):
            name = cte  # the only thing that it can mean
        return rel.TableName(name, schema, alias)

    def _without_ctes(self, node: exp.Expr) -> rel.Query:
        query = super()._without_ctes(node)
        return _document(query) if node.args.get("for_") is not None else query

    def _target(self, value: exp.Expr) -> rel.OutputColumn | rel.Star | rel.RowStar:
        variable = self.assigned_variable(value)
        if variable:
            assigned = self.expressions.of(value.args["expression"])
            return rel.OutputColumn(None, rel.Assigned((fold_identifier(variable),), assigned))
        return super()._target(value)

    def _title(self, value: exp.Expr) -> str | None:
        """Return a column's name, which is empty for one that is computed; None if it is unknown."""
        if isinstance(value, exp.Alias):
            return column_name(value.args["alias"].name)
        if isinstance(value, exp.Column):
            return None if value.name.startswith("$") else column_name(value.name)
        is_doubtful = isinstance(value, exp.Paren) or unknown_function_name(value) == ACTION
        return None if is_doubtful else ""


def _document(query: rel.Query) -> rel.Query:
    """Return the query of FOR XML and FOR JSON, whose only column contains everything."""
    rows = rel.DerivedTable(query)
    return rel.Select((rel.OutputColumn(None, rel.WholeRow()),), (rows,))


def _cte_names(tree: exp.Expr) -> dict[str, str]:
    """Return the spelling of each CTE's name, unless several CTEs have names that differ only in their letters."""
    names: dict[str, str] = {}
    for cte in tree.find_all(exp.CTE):
        folded = fold_identifier(cte.alias)
        names[folded] = cte.alias if names.setdefault(folded, cte.alias) == cte.alias else ""
    return {folded: name for folded, name in names.items() if name}
