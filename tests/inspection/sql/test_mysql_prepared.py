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


def test_execute_of_a_name_that_nobody_saw_prepared_is_unknown() -> None:
    assert effects(session(), "execute p") == [{"unknown"}]


def test_execute_does_what_was_prepared() -> None:
    one = session()
    one.record_statement("prepare p from 'delete from t'")
    (statement,) = one.parse("execute P")
    assert {effect.value for effect in statement.effects} == {"session", "write"}
    assert statement.without_where
    assert statement.tag == "EXECUTE"
    assert {name.name for name in statement.objects} == {"t"}
    assert one.executed_statements("execute p") == ["delete from t"]


def test_what_was_judged_but_never_passed_is_not_known() -> None:
    one = session()
    one.parse("prepare p from 'select 1'")
    assert effects(one, "execute p") == [{"unknown"}]


def test_preparing_has_the_effects_of_what_is_prepared() -> None:
    assert effects(session(), "prepare p from 'drop table t'") == [{"session", "ddl"}]


def test_within_one_text_the_order_counts() -> None:
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
def test_a_text_is_known_from_literals_and_from_what_is_made_of_them(source: str) -> None:
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
def test_attack_a_variable_that_something_else_fills(fills: str) -> None:
    one = session()
    one.record_statement("set @q = 'select 1'")
    one.record_statement(fills)
    one.record_statement("prepare p from @q")
    assert effects(one, "execute p") == [{"unknown"}]


def test_attack_prepared_harmlessly_under_a_name_that_holds_a_write() -> None:
    """The second PREPARE may have failed."""
    one = session()
    one.record_statement("prepare p from 'delete from t'")
    one.record_statement("prepare p from 'select 1'")
    assert "write" in effects(one, "execute p")[0]


def test_attack_a_variable_that_was_set_by_what_was_executed() -> None:
    one = session()
    one.record_statement("prepare p from 'set @q = \"drop table t\"'")
    one.record_statement("execute p")
    one.record_statement("prepare r from @q")
    assert effects(one, "execute r") == [{"session", "ddl"}]


def test_attack_a_text_that_is_read_in_two_ways() -> None:
    one = session()
    one.record_statement("prepare p from 'select \\'a\\\\\\', 1; drop table t; -- \\''")
    assert effects(one, "execute p")[0] & {"ddl", "unknown"}


def test_a_text_with_a_quote_behind_a_backslash_is_unknown() -> None:
    """Which of its two meanings it has, only the session's sql_mode tells."""
    one = session()
    one.record_statement("prepare p from 'delete from t where id = \\'1\\''")
    assert "unknown" in effects(one, "execute p")[0]


def test_arguments_that_call_code_are_unknown() -> None:
    one = session()
    one.record_statement("prepare p from 'select ?'")
    assert effects(one, "execute p using @a") == [{"session", "read"}]
    schema = TargetSchema({}, {("app", "f"): Function("app", "f", harmless=False)}, ("app",))
    (statement,) = one.parse("execute p using f()", schema)
    assert "unknown" in {effect.value for effect in statement.effects}


def test_what_was_missed_is_lost() -> None:
    one = session()
    one.record_statement("prepare p from 'select 1'")
    one.record_gap()
    assert effects(one, "execute p") == [{"unknown"}]
    assert one.executed_statements("execute p") == []


def test_more_than_is_kept_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    one = session()
    for n in range(4):
        one.record_statement(f"set @v{n} = 'select {n}'")
    one.record_statement("prepare p from @v0")
    assert effects(one, "execute p") == [{"unknown"}]


def test_only_what_matters_later_is_kept() -> None:
    assert not session().matters_later("select * from users where name = 'x'")
    for text in ("set @q = 'x'", "call p()", "PREPARE p FROM 'x'"):
        assert session().matters_later(text)


@pytest.mark.parametrize(
    "source",
    ["_gbk'select 1'", "_swe7'select 1'", "_utf8'select \u00e9'", "_ucs2 'select 1'", "concat(_gbk'select ', '1')"],
)
def test_attack_a_text_in_another_character_set(source: str) -> None:
    """In GBK the second half of a character may be a backtick, so that a name ends elsewhere."""
    assert "unknown" in effects(session(), f"prepare p from {source}")[0]
    assert "unknown" in effects(session(), f"execute immediate {source}")[0]


def test_a_character_set_that_changes_nothing_is_passed_over() -> None:
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
def test_attack_texts_are_read_in_another_character_set(setting: str) -> None:
    """SWE7 has letters where ASCII has backticks: what is a name to us is code to the server."""
    one = session()
    one.record_statement(f"{setting}; set @q = 'select 1'; prepare p from @q")
    assert "unknown" in effects(one, "execute p")[0]


def test_character_sets_that_are_read_leave_texts_known() -> None:
    one = session()
    one.record_statement("set collation_connection = utf8mb4_unicode_ci; set names latin1; prepare p from 'select 1'")
    assert effects(one, "execute p") == [{"session", "read"}]


def test_attack_a_session_that_runs_texts_within_texts_is_lost_at_some_time() -> None:
    one = session()
    for name, next_one in (("a", "b"), ("b", "c"), ("c", "d")):
        one.record_statement(f"prepare {name} from '{f'execute {next_one};' * 200}'")
    one.record_statement("prepare d from 'do @a'; execute a")
    assert "unknown" in effects(one, "execute d")[0]


def test_what_has_passed_weighs_on_what_executes_it() -> None:
    one = session()
    assert one.weight == 0
    one.record_statement("prepare p from 'select 1'")
    assert one.weight == len("prepare p from 'select 1'")


@pytest.mark.parametrize(
    "name",
    ["@@global.`max_connections`", "@@global . max_connections", "@@global/**/.max_connections", "@@persist.`x`",
     "autocommit = 1, @@GLOBAL.`x`"],
)  # fmt: skip
def test_attack_settings_of_the_server_in_other_spellings(name: str) -> None:
    assert effects(session(), f"set {name} = 50") == [{"session", "admin"}]
    assert effects(session(), "set @x = @@global.max_connections") == [{"session"}]
