"""What got past other gateways, one test for each kind: what is public about them, against our rules and masking."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.bypass.cases import lets_through
from tests.support.links import links
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.guardrail import Guardrail, Rule, RuleType, unenforceable
from postern.domain.rules.guardrail_presets import preset
from postern.domain.rules.masking import InfoType
from postern.domain.rules.statement import Effect
from postern.domain.targets.connection import TERMINAL
from postern.domain.targets.target_schema import ColumnRef, Origin, Relation, TargetSchema
from postern.errors import Invalid
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.inspection.masking.masking_interceptor import Masking
from postern.inspection.masking.samples import SampleTexts
from postern.interception.events import Column, Operation, TextKind
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.postgres.lineage.postgres_lineage import Lineage
from postern.protocols.postgres.lineage.postgres_session_lineage import SessionLineage
from postern.protocols.wire_base import Side
from postern.relay.link import Send
from postern.wiring.parsers import PARSED, parser_of

USERS = Relation("public", "users", ("id", "email"), 100)
SCHEMA = TargetSchema({("public", "users"): USERS}, {}, ("public",))
EMAIL = ColumnRef("public", "users", "email")
MAIL = "ann@example.com"


@pytest.fixture
def session() -> SessionView:
    return SessionView(UUID(int=3), "ann@example.com", frozenset(), "shop", "database", "postgres", {})


def stopped(dialect: str, text: str) -> bool:
    """By a guard that lets people read, and nothing else."""
    parser = parser_of(dialect)
    assert parser is not None
    return not lets_through(parser.parse(text))


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("postgres", "select E'\\\\'; drop table orders; --'"),
        ("postgres", "select $a$ $a$; drop table orders; -- $a$"),
        ("postgres", "select U&'\\0027'; drop table orders"),
        ("postgres", "select 1 /* /* */ */; drop table orders /* */"),
        ("postgres", "select 'a\\'; drop table orders; --'"),
        ("mysql", "/*!50000 drop table orders */"),
        ("mysql", "/*M!100000 drop table orders */"),
        ("mysql", "select 'a\\'; drop table orders; -- '"),
        ("mysql", "select 1 -- \n; drop table orders"),
        ("tsql", "select ']' as [a]]; drop table orders]; drop table orders"),
        ("tsql", "select 1 drop table orders"),
        ("oracle", "select q'[']' from dual; drop table orders"),
    ],
)
def test_literals_and_comments_that_hide_a_second_statement(dialect: str, text: str) -> None:
    assert stopped(dialect, text)


@pytest.mark.parametrize(
    "text",
    [
        "with a as (delete from orders returning *) select * from a",
        "merge into orders using orders o on orders.id = o.id when matched then delete",
        "copy (delete from orders returning *) to stdout",
        "explain analyze delete from orders",
        "select * into copied from orders",
        "create table copied as select * from orders",
    ],
)
def test_queries_that_write(text: str) -> None:
    assert stopped("postgres", text)


@pytest.mark.parametrize(
    "text",
    [
        "commit; drop table orders",
        "rollback; drop table orders",
        "end; begin read write; delete from orders",
        "set transaction read write; delete from orders",
        "set session characteristics as transaction read write; delete from orders",
    ],
)
def test_statements_that_leave_a_read_only_transaction(text: str) -> None:
    assert stopped("postgres", text)


@pytest.mark.parametrize(
    "text",
    [
        "select pg_read_file('/etc/passwd')",
        "select dblink('dbname=shop', 'drop table orders')",
        "select lo_import('/etc/passwd')",
        "select nextval('orders_id_seq')",
        "select set_config('role', 'postgres', false)",
        "select query_to_xml('delete from orders', true, true, '')",
    ],
)
def test_functions_with_side_effects_behind_a_select(text: str) -> None:
    assert stopped("postgres", text)


@pytest.mark.parametrize(
    "text",
    [
        "select \"pg_read_file\"('/etc/passwd')",
        "select pg_catalog.pg_read_file('/etc/passwd')",
        "select pg_read_file/**/('/etc/passwd')",
        "select pg_catalog . /* */ \"pg_read_file\" ('/etc/passwd')",
        "select U&\"pg\\005fread_file\"('/etc/passwd')",
    ],
)
def test_quoted_commented_and_qualified_names_of_functions(session: SessionView, text: str) -> None:
    assert stopped("postgres", text)
    made = preset("files-and-programs")
    assert made is not None
    rails = GuardrailInterceptor(
        (Guardrail(UUID(int=1), UUID(int=2), "care", input=made.input),), parser_of("postgres")
    )
    assert isinstance(rails.see(Operation(1, text), session), Refuse)


def test_a_dialect_that_is_misspelt_or_not_the_servers() -> None:
    """No lenient default: without a parser such a rule is refused, and a parser is its own server's."""
    assert parser_of("postgre") is None
    rail = Guardrail(UUID(int=1), UUID(int=2), "care", input=(Rule(RuleType.READ_ONLY),))
    assert unenforceable(rail, "postgre", PARSED) is not None
    with pytest.raises(Invalid):
        GuardrailInterceptor((rail,), parser_of("postgre"))
    assert not stopped("postgres", "select $$; drop table orders; --$$")
    assert stopped("mysql", "select $$; drop table orders; --$$")
    assert not stopped("postgres", "/*!50000 drop table orders */ select 1")
    assert stopped("mysql", "/*!50000 drop table orders */ select 1")


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("postgres", "do $$ begin execute 'drop table orders'; end $$"),
        ("postgres", "execute p"),
        ("postgres", "call app.clean()"),
        ("mysql", "execute p"),
        ("mysql", "call clean()"),
        ("tsql", "exec('dr' + 'op table orders')"),
        ("tsql", "exec sp_executesql N'drop table orders'"),
        ("oracle", "begin execute immediate 'drop table orders'; end;"),
    ],
)
def test_code_whose_effect_nobody_knows_is_denied(session: SessionView, dialect: str, text: str) -> None:
    assert stopped(dialect, text)
    rule = Rule(RuleType.DENY_STATEMENTS, effects=frozenset({Effect.DDL}))
    rails = GuardrailInterceptor((Guardrail(UUID(int=1), UUID(int=2), "care", input=(rule,)),), parser_of(dialect))
    assert isinstance(rails.see(Operation(1, text), session), Refuse)


# Masking


@pytest.mark.parametrize(
    "text",
    [
        "select email as x from users",
        "select 'a' || email || 'b' from users",
        "select email::bytea from users",
        "select row_to_json(users) from users",
        "select to_jsonb(u) ->> 'email' from users u",
        "select substring(email, 1, 1) from users",
        "select ascii(substr(email, 2, 1)) from users",
        "select reverse(email) from users",
        "select encode(convert_to(email, 'UTF8'), 'base64') from users",
        "select string_agg(email, ',') from users",
        "copy (select email from users) to stdout",
        "select query_to_xml('select email from users', true, true, '')",
        "select most_common_vals::text from pg_stats",
        "with x as (select email as a from users) select a from x",
        "insert into users select * from users returning email",
    ],
)
def test_a_marked_column_that_leaves_its_table_in_another_form(text: str) -> None:
    """Masked where the column is told, and where it is not known by what the rule's strictness says."""
    found = Lineage().sources(text, SCHEMA)
    assert found is not None
    assert any(one is None or EMAIL in one for one in found)


def test_a_marked_column_through_a_cursor() -> None:
    lineage = SessionLineage(Lineage(), lambda: SCHEMA)
    lineage.record_statement("declare c binary cursor for select email from users")
    email = frozenset({EMAIL})
    assert lineage.of("fetch c", (Column("email", TextKind.TEXT),)) == (Origin(email, frozenset({email})),)


@pytest.mark.parametrize(
    "text",
    [
        f'ERROR: invalid input syntax for type integer: "{MAIL}"',
        f"DETAIL: Key (email)=({MAIL}) already exists.",
        f"NOTICE: {MAIL}",
        f"Filter: (email = '{MAIL}'::text)",
    ],
)
def test_a_value_in_an_error_a_notice_or_a_plan(session: SessionView, text: str) -> None:
    event = SampleTexts([text.encode()])
    Masking(frozenset({InfoType.EMAIL_ADDRESS})).see(event, session)
    assert MAIL.encode() not in b"".join(event.held)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_value_that_is_split_over_reads_and_a_very_wide_row(size: int) -> None:
    wide = 400
    described = pg.row_description(*[(f"c{number}", 25, 0) for number in range(wide)])
    row = pg.data_row(*[f"to {MAIL} {number}" for number in range(wide)])
    answer = described + row * 2 + pg.command_complete("SELECT 2") + pg.ready()
    link = links(Masking(frozenset({InfoType.EMAIL_ADDRESS})))()
    link.receive(Side.CLIENT, pg.query("select * from t"))
    sent = b""
    for place in range(0, len(answer), size):
        for effect in link.receive(Side.TARGET, answer[place : place + size]):
            if isinstance(effect, Send) and effect.side is Side.CLIENT:
                sent += effect.data
    assert MAIL.encode() not in sent
    assert sent.count(b" 399") == 2


def test_utf_16_is_not_spoken_by_any_client_here() -> None:
    """A text that is UTF-16 in its bytes holds NULs, which no parser reads past; the wire takes none of it."""
    text = "drop table orders".encode("utf-16-le").decode("latin-1")
    for dialect in ("postgres", "mysql", "tsql", "oracle"):
        assert stopped(dialect, text)


@pytest.mark.parametrize(
    "line",
    [
        "echo cm0gLXJmIC8= | base64 -d | sh",
        "sh script.sh",
        "vi -c ':!r''m -rf /'",
        "cat <<E | sh\nr''m -rf /\nE",
        "x=rm; $x -rf /",
    ],
)
def test_commands_at_a_terminal_are_advice_and_say_so(session: SessionView, line: str) -> None:
    """Rules about what a line does are refused there; those about its spelling end where the spelling does."""
    made = preset("destructive-commands")
    assert made is not None
    assert "it is advisory" in made.description
    rails = GuardrailInterceptor((Guardrail(UUID(int=1), UUID(int=2), "care", input=made.input),))
    for plain in ("rm -rf /", "\\rm -rf /", "true; rm  -r -f /"):
        assert isinstance(rails.see(Operation(1, plain), session), Refuse)
    assert rails.see(Operation(2, line), session) is FORWARD
    rail = Guardrail(UUID(int=1), UUID(int=2), "care", input=(Rule(RuleType.READ_ONLY),))
    assert unenforceable(rail, TERMINAL, PARSED) is not None


@pytest.mark.parametrize(
    "text",
    [
        'select 1 as "delete"',
        'select "drop" from customers',
        "select 1 as drop_date, 'delete from x' as grant",
        "/* Metabase:: userID: 1 queryType: native; drop table x */ select 1",
        "select updated_at, deleted_at from orders where note = 'truncate'",
        "-- insert\nselect 1",
    ],
)
def test_words_that_only_look_dangerous_pass(text: str) -> None:
    assert not stopped("postgres", text)
