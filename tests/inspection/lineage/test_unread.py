"""Long texts are read in another process, with the same result, which this process then caches."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from tests.bypass import cases_mysql, cases_postgres
from tests.inspection.lineage.cases import CASES
from tests.inspection.lineage.mysql_world import CASES as MYSQL_CASES

from postern.domain.rules.masking import MaskingRule, Strictness
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Operation
from postern.interception.pipeline import AT_ONCE, SessionView
from postern.interception.verdicts import FORWARD, Hold, Verdict
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_session_lineage import MySqlSessionLineage
from postern.protocols.postgres.lineage.postgres_lineage import Lineage
from postern.protocols.postgres.lineage.postgres_session_lineage import SessionLineage

PEOPLE = Relation("public", "people", ("id", "name", "salary"), number=5)
SCHEMA = TargetSchema(relations={("public", "people"): PEOPLE}, search_path=("public",))
LONG = "select name from people where id in (" + ", ".join(map(str, range(AT_ONCE))) + ")"

Session = SessionLineage | MySqlSessionLineage
SESSIONS: dict[str, Callable[[], Session]] = {
    "postgres": lambda: SessionLineage(Lineage(), lambda: SCHEMA),
    "mysql": lambda: MySqlSessionLineage(MySqlLineage(), lambda: SCHEMA),
}


def run_pickled(unread: UnreadText) -> object:
    """Run the task on pickled input and return its pickled result, as another process does."""
    return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(unread.task))()))


@pytest.mark.parametrize("dialect", SESSIONS)
def test_lineage_read_in_another_process_equals_local_lineage(dialect: str) -> None:
    """Compares after each statement, because a statement can change the meaning of the next."""
    cases, known = (CASES, cases_postgres) if dialect == "postgres" else (MYSQL_CASES, cases_mysql)
    here, there = SESSIONS[dialect](), SESSIONS[dialect]()
    read = 0
    for texts in (*cases[::5], *((case.text,) for case in known.CASES[::9])):
        for text in texts:
            while (unread := there.unread(text)) is not None:
                unread.keep(run_pickled(unread))
                read += 1
            here.record_statement(text)
            there.record_statement(text)
            assert there.of(text, ()) == here.of(text, ())
    assert read > 50


@pytest.mark.parametrize("dialect", SESSIONS)
def test_cached_lineage_is_not_read_again(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = SESSIONS[dialect]()
    unread = session.unread(LONG)
    assert unread is not None
    assert unread.size == len(LONG)
    unread.keep(run_pickled(unread))
    modules = {
        "postgres": "postern.protocols.postgres.lineage.postgres_lineage",
        "mysql": "postern.protocols.mysql.lineage.mysql_lineage",
    }
    monkeypatch.setattr(f"{modules[dialect]}._read", None)
    assert session.unread(LONG) is None
    session.record_statement(LONG)
    (of,) = session.of(LONG, ()) or (None,)
    assert of is not None
    assert {ref.column for ref in of.refs} == {"name"}


def masking(dialect: str) -> Masking:
    rule = MaskingRule(UUID(int=1), UUID(int=2), "salaries", columns=("people.salary",), strictness=Strictness.STRICT)
    return Masking(frozenset(), (rule,), b"key", SESSIONS[dialect]())


@pytest.fixture
def view() -> SessionView:
    return SessionView(UUID(int=1), "ann@example.com", frozenset(), "shop", "database", "postgres", {})


def concluded(verdict: Verdict) -> Iterator[Verdict]:
    """Yield each verdict until the hold is resolved."""
    while isinstance(verdict, Hold):
        assert verdict.work is not None
        yield verdict
        task = verdict.work.task
        verdict = verdict.work.conclude(None if task is None else pickle.loads(pickle.dumps(task))())
    yield verdict


@pytest.mark.parametrize("dialect", SESSIONS)
def test_masking_holds_a_long_statement_until_it_is_read_and_forwards_a_short_one(
    dialect: str, view: SessionView
) -> None:
    mask = masking(dialect)
    assert mask.see(Operation(1, "select name from people"), view) is FORWARD
    assert [type(step) for step in concluded(mask.see(Operation(2, LONG), view))] == [Hold, type(FORWARD)]
    assert mask.see(Operation(3, LONG), view) is FORWARD  # it is known by now


@pytest.mark.parametrize("dialect", SESSIONS)
def test_attack_many_short_statements_in_one_read_are_held_by_masking(dialect: str, view: SessionView) -> None:
    mask = masking(dialect)
    verdicts = [mask.see(Operation(n, f"select name as n{n} from people"), view) for n in range(1, 200)]
    waiting = [verdict for verdict in verdicts if isinstance(verdict, Hold)]
    assert len(waiting) > 50
    assert all([type(step) for step in concluded(verdict)] == [Hold, type(FORWARD)] for verdict in waiting)


def test_attack_execute_of_a_long_text_is_held_and_read_in_another_process(view: SessionView) -> None:
    mask = masking("mysql")
    inner = "select name from people where id in (" + ", ".join(map(str, range(AT_ONCE))) + ")"
    steps = list(concluded(mask.see(Operation(1, f"prepare p from '{inner}'"), view)))
    assert steps[-1] is FORWARD
    assert [type(step) for step in concluded(mask.see(Operation(2, "execute p"), view))] == [Hold, type(FORWARD)]
