"""A statement that is refused never reaches the target, so the session's masking does not count it."""

from __future__ import annotations

from uuid import UUID

import pytest

from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.rules.masking import MaskingRule
from postern.domain.rules.policy import Policy
from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.interception.events import Change, Column, Operation, Rows, Scalar, TextKind
from postern.interception.pipeline import Pipeline, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Refuse
from postern.wiring.processes.worker_process import default_interceptors

ID = UUID(int=1)
SCHEMAS = {"postgres": "public", "mysql": "shop", "mssql": "dbo", "oracledb": "APP"}


class Answer(Rows):
    """One row with a name and an address."""

    def __init__(self, subtype: str, exchange: int) -> None:
        names = ("NAME", "EMAIL") if subtype == "oracledb" else ("name", "email")
        self.exchange = exchange
        self.columns = tuple(Column(name, TextKind.TEXT) for name in names)
        self.count = 1
        self.held = [[b"Ann"], [b"ann@example.com"]]

    def texts(self, column: int) -> list[bytes]:
        return self.held[column]

    def change(self, column: int, by: Change) -> tuple[int, int]:
        self.held[column] = [by(Scalar.TEXT, text) or b"" for text in self.held[column]]
        return 1, 1

    def replace(self, column: int, texts: list[bytes]) -> None:
        self.held[column] = texts


@pytest.mark.parametrize("refused", ["drop table customers", "create table customers (name int, email int)"])
@pytest.mark.parametrize("subtype", SCHEMAS)
def test_origins_stay_known_after_a_refused_statement(subtype: str, refused: str) -> None:
    names = ("customers", "name", "email")
    table, name, email = [each.upper() if subtype == "oracledb" else each for each in names]
    schema = SCHEMAS[subtype]
    catalogue = TargetSchema({(schema, table): Relation(schema, table, (name, email))}, {}, (schema,), database="shop")
    policy = Policy(
        guardrails=(
            Guardrail(ID, ID, "no DDL", input=(Rule(RuleType.DENY_STATEMENTS, effects=frozenset({Effect.DDL})),)),
        ),
        masking=(MaskingRule(ID, ID, "pii", columns=("customers.email",)),),
    )
    view = SessionView(ID, "ann@example.com", frozenset(), "shop", "database", subtype, {}, schema=catalogue)
    pipeline = Pipeline(default_interceptors(policy, view, subtype), view)
    assert isinstance(pipeline.judge(Operation(1, refused), Operation), Refuse)
    assert pipeline.judge(Operation(2, "select name, email from customers"), Operation) is FORWARD
    answer = Answer(subtype, 2)
    assert pipeline.judge(answer, Rows) is REPLACE
    assert answer.held == [[b"Ann"], [b"****"]]
