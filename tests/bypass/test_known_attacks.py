"""Publicly known bypasses of other gateways, one test for each kind, against guardrails and masking."""

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


def is_denied(dialect: str, text: str) -> bool:
    """Whether a guardrail that allows only reads denies the text."""
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
def test_second_statement_hidden_by_literals_or_comments_is_denied(dialect: str, text: str) -> None:
    assert is_denied(dialect, text)


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
def test_query_that_writes_is_denied(text: str) -> None:
    assert is_denied("postgres", text)


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
def test_statement_that_leaves_a_read_only_transaction_is_denied(text: str) -> None:
    assert is_denied("postgres", text)


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
def test_select_of_a_function_with_side_effects_is_denied(text: str) -> None:
    assert is_denied("postgres", text)


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
def test_function_is_denied_if_its_name_is_quoted_commented_or_qualified(session: SessionView, text: str) -> None:
    assert is_denied("postgres", text)
    made = preset("files-and-programs")
    assert made is not None
    rails = GuardrailInterceptor(
        (Guardrail(UUID(int=1), UUID(int=2), "care", input=made.input),), parser_of("postgres")
    )
    assert isinstance(rails.see(Operation(1, text), session), Refuse)


def test_rule_for_a_misspelt_dialect_is_invalid_and_each_dialect_has_its_own_parser() -> None:
    """There is no lenient default: a statement rule without a parser is invalid."""
    assert parser_of("postgre") is None
    rail = Guardrail(UUID(int=1), UUID(int=2), "care", input=(Rule(RuleType.READ_ONLY),))
    assert unenforceable(rail, "postgre", PARSED) is not None
    with pytest.raises(Invalid):
        GuardrailInterceptor((rail,), parser_of("postgre"))
    assert not is_denied("postgres", "select $$; drop table orders; --$$")
    assert is_denied("mysql", "select $$; drop table orders; --$$")
    assert not is_denied("postgres", "/*!50000 drop table orders */ select 1")
    assert is_denied("mysql", "/*!50000 drop table orders */ select 1")


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
def test_code_of_unknown_effect_is_denied(session: SessionView, dialect: str, text: str) -> None:
    assert is_denied(dialect, text)
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
def test_column_in_any_other_form_keeps_its_lineage_or_is_unknown(text: str) -> None:
    """A known column is masked. An unknown one is handled by the strictness of the rule."""
    found = Lineage().sources(text, SCHEMA)
    assert found is not None
    assert any(one is None or EMAIL in one for one in found)


def test_column_fetched_from_a_binary_cursor_keeps_its_lineage() -> None:
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
def test_value_in_an_error_a_notice_or_a_plan_is_masked(session: SessionView, text: str) -> None:
    event = SampleTexts([text.encode()])
    Masking(frozenset({InfoType.EMAIL_ADDRESS})).see(event, session)
    assert MAIL.encode() not in b"".join(event.held)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_value_in_a_very_wide_row_split_over_reads_is_masked(size: int) -> None:
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


def test_statement_in_utf16_bytes_is_denied_in_every_dialect() -> None:
    """UTF-16 text contains NUL bytes, at which every parser stops."""
    text = "drop table orders".encode("utf-16-le").decode("latin-1")
    for dialect in ("postgres", "mysql", "tsql", "oracle"):
        assert is_denied(dialect, text)


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
def test_obfuscated_terminal_commands_evade_the_advisory_preset(session: SessionView, line: str) -> None:
    """Statement rules are not enforceable on a terminal; text rules match only the plain spelling."""
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
def test_harmless_statement_with_dangerous_words_passes(text: str) -> None:
    assert not is_denied("postgres", text)
