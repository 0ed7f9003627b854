from __future__ import annotations

import pytest

from postern.domain.targets.target_schema import Function, TargetSchema
from postern.protocols.mysql.dialect import mysql_prepared as module
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.mysql.dialect.mysql_prepared import MySqlPreparedStatements


def session() -> MySqlPreparedStatements:
    return MySqlPreparedStatements(MySqlParser())


def effects(one: MySqlPreparedStatements, text: str) -> list[set[str]]:
    return [{effect.value for effect in statement.effects} for statement in one.parse(text)]


def test_execute_of_a_name_that_was_never_prepared_is_unknown() -> None:
    assert effects(session(), "execute p") == [{"unknown"}]


def test_execute_has_the_effects_and_objects_of_the_prepared_statement() -> None:
    one = session()
    one.record_statement("prepare p from 'delete from t'")
    (statement,) = one.parse("execute P")
    assert {effect.value for effect in statement.effects} == {"session", "write"}
    assert statement.without_where
    assert statement.tag == "EXECUTE"
    assert {name.name for name in statement.objects} == {"t"}
    assert one.executed_statements("execute p") == ["delete from t"]


def test_execute_is_unknown_if_prepare_was_judged_but_not_forwarded() -> None:
    one = session()
    one.parse("prepare p from 'select 1'")
    assert effects(one, "execute p") == [{"unknown"}]


def test_prepare_has_the_effects_of_its_statement() -> None:
    assert effects(session(), "prepare p from 'drop table t'") == [{"session", "ddl"}]


def test_execute_in_one_text_is_known_only_after_its_prepare() -> None:
    assert effects(session(), "prepare p from 'select 1'; execute p") == [{"session", "read"}] * 2
    assert effects(session(), "execute p; prepare p from 'select 1'")[0] == {"unknown"}


@pytest.mark.parametrize(
    "source",
    [
        "'delete from t where id = 1'",
        "concat('delete ', 'from ', 't where id = 1')",
        "if(@n > 0, 'delete from t where id = 1', 'select 1')",
        "'delete ' 'from t where id = 1'",
    ],
)
def test_prepared_text_is_known_from_literals_and_expressions_of_literals(source: str) -> None:
    one = session()
    one.record_statement(f"prepare p from {source}")
    assert {"session", "write"} <= effects(one, "execute p")[0]
    assert {"session", "write"} <= effects(session(), f"execute immediate {source}")[0]
    by_variable = session()
    by_variable.record_statement(f"set @n = 1, @q = {source}")
    by_variable.record_statement("prepare p from @Q")
    assert {"session", "write"} <= effects(by_variable, "execute p")[0]


@pytest.mark.parametrize(
    "fills",
    [
        "select note into @q from orders",
        "select @q := note from orders",
        "set @q = (select note from orders)",
        "set @q = x'64656c657465'",
        "call fill()",
        "get diagnostics condition 1 @q = message_text",
        "load data local infile 'x' into table t (@q)",
        "execute never_prepared",
    ],
)
def test_attack_prepare_from_a_variable_of_unknown_content_is_unknown(fills: str) -> None:
    one = session()
    one.record_statement("set @q = 'select 1'")
    one.record_statement(fills)
    one.record_statement("prepare p from @q")
    assert effects(one, "execute p") == [{"unknown"}]


def test_attack_harmless_prepare_under_a_used_name_does_not_hide_the_write() -> None:
    """The second PREPARE can have failed."""
    one = session()
    one.record_statement("prepare p from 'delete from t'")
    one.record_statement("prepare p from 'select 1'")
    assert "write" in effects(one, "execute p")[0]


def test_attack_prepare_from_a_variable_that_an_execute_set_is_judged() -> None:
    one = session()
    one.record_statement("prepare p from 'set @q = \"drop table t\"'")
    one.record_statement("execute p")
    one.record_statement("prepare r from @q")
    assert effects(one, "execute r") == [{"session", "ddl"}]


def test_attack_ambiguous_prepared_text_is_not_harmless() -> None:
    one = session()
    one.record_statement("prepare p from 'select \\'a\\\\\\', 1; drop table t; -- \\''")
    assert effects(one, "execute p")[0] & {"ddl", "unknown"}


def test_prepared_text_with_an_escaped_quote_is_unknown() -> None:
    """Only the session's sql_mode decides between its two meanings."""
    one = session()
    one.record_statement("prepare p from 'delete from t where id = \\'1\\''")
    assert "unknown" in effects(one, "execute p")[0]


def test_execute_with_an_argument_that_calls_code_is_unknown() -> None:
    one = session()
    one.record_statement("prepare p from 'select ?'")
    assert effects(one, "execute p using @a") == [{"session", "read"}]
    schema = TargetSchema({}, {("app", "f"): Function("app", "f", harmless=False)}, ("app",))
    (statement,) = one.parse("execute p using f()", schema)
    assert "unknown" in {effect.value for effect in statement.effects}


def test_execute_is_unknown_after_a_gap() -> None:
    one = session()
    one.record_statement("prepare p from 'select 1'")
    one.record_gap()
    assert effects(one, "execute p") == [{"unknown"}]
    assert one.executed_statements("execute p") == []


def test_execute_is_unknown_after_more_variables_than_are_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    one = session()
    for n in range(4):
        one.record_statement(f"set @v{n} = 'select {n}'")
    one.record_statement("prepare p from @v0")
    assert effects(one, "execute p") == [{"unknown"}]


def test_only_statements_that_can_affect_later_ones_are_recorded() -> None:
    assert not session().matters_later("select * from users where name = 'x'")
    for text in ("set @q = 'x'", "call p()", "PREPARE p FROM 'x'"):
        assert session().matters_later(text)


@pytest.mark.parametrize(
    "source",
    ["_gbk'select 1'", "_swe7'select 1'", "_utf8'select \u00e9'", "_ucs2 'select 1'", "concat(_gbk'select ', '1')"],
)
def test_attack_prepared_text_with_a_charset_introducer_is_unknown(source: str) -> None:
    """In GBK the second byte of a character can be a backtick, so that a name ends elsewhere."""
    assert "unknown" in effects(session(), f"prepare p from {source}")[0]
    assert "unknown" in effects(session(), f"execute immediate {source}")[0]


def test_prepared_text_with_a_utf8mb4_introducer_is_known() -> None:
    assert effects(session(), "prepare p from _utf8mb4'select 1'") == [{"session", "read"}]
    assert effects(session(), "prepare p from N'select 1'") == [{"session", "read"}]


@pytest.mark.parametrize(
    "setting",
    [
        "set collation_connection = swe7_swedish_ci",
        "set @@session.character_set_connection = 'gbk'",
        "set session `collation_connection` := @x",
        "set @@collation_connection = default",
        "set autocommit = 1, collation_connection = concat('swe7', '_swedish_ci')",
        "set character set utf8",
    ],
)
def test_attack_prepared_text_is_unknown_after_a_connection_charset_change(setting: str) -> None:
    """SWE7 has letters in place of ASCII backticks: a name to the gateway is code to the server."""
    one = session()
    one.record_statement(f"{setting}; set @q = 'select 1'; prepare p from @q")
    assert "unknown" in effects(one, "execute p")[0]


def test_prepared_text_is_known_under_readable_character_sets() -> None:
    one = session()
    one.record_statement("set collation_connection = utf8mb4_unicode_ci; set names latin1; prepare p from 'select 1'")
    assert effects(one, "execute p") == [{"session", "read"}]


def test_attack_nested_executes_of_many_texts_become_unknown() -> None:
    one = session()
    for name, next_one in (("a", "b"), ("b", "c"), ("c", "d")):
        one.record_statement(f"prepare {name} from '{f'execute {next_one};' * 200}'")
    one.record_statement("prepare d from 'do @a'; execute a")
    assert "unknown" in effects(one, "execute d")[0]


def test_weight_of_a_session_is_the_length_of_its_prepared_texts() -> None:
    one = session()
    assert one.weight == 0
    one.record_statement("prepare p from 'select 1'")
    assert one.weight == len("prepare p from 'select 1'")


@pytest.mark.parametrize(
    "name",
    ["@@global.`max_connections`", "@@global . max_connections", "@@global/**/.max_connections", "@@persist.`x`",
     "autocommit = 1, @@GLOBAL.`x`"],
)  # fmt: skip
def test_attack_global_setting_is_admin_in_every_spelling(name: str) -> None:
    assert effects(session(), f"set {name} = 50") == [{"session", "admin"}]
    assert effects(session(), "set @x = @@global.max_connections") == [{"session"}]
