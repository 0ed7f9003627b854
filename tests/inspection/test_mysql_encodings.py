"""Character sets of MySQL under guardrails. Each test is an attack or a statement that must keep working."""

from __future__ import annotations

import pytest

from postern.interception.events import Operation, Phase
from postern.interception.pipeline import AT_ONCE, SessionView
from postern.interception.verdicts import FORWARD, Hold, Refuse, Verdict
from postern.protocols.mysql.dialect.mysql_encodings import MySqlEncodings

GRUESSE = "select 'Gr\u00fc\u00dfe'"


def see(one: MySqlEncodings, session: SessionView, text: str, unread: str = "", phase: Phase = Phase.RUN) -> Verdict:
    session.parsed = 0  # each comes in a read of its own
    return one.see(Operation(1, text, phase, unread=unread), session)


@pytest.mark.parametrize("encoding", ["gbk", "BIG5", "sjis", "cp932", "gb18030", "swe7", "ucs2", "unheard_of"])
@pytest.mark.parametrize(
    "text",
    [
        "set names {}",
        "SET NAMES '{}' collate x",
        "set/**/names/**/{}",
        "set character set {}",
        "set charset {}",
        "set character_set_client = {}",
        "set @@character_set_client = '{}'",
        "set session character_set_client := {}",
        "set @@session.`character_set_client` = {}",
        "set autocommit = 1, names {}",
        "set names utf8mb4, character_set_client = {}",
        "/*!40101 set names {} */",
        "/*!99999 set names {} */",
        "set /*M! names {} */",
        "select 1; set names {}",
        "begin not atomic set names {}; end",
        "create procedure p() set names {}",
        "set statement character_set_client = {} for select 1",
        "prepare p from 'set names {}'",
        "execute immediate concat('set na', 'mes {}')",
        "set @q = 'set names {}'; prepare p from @q",
        "set @q = if(1, 'set names {}', 'select 1'); prepare p from @q; execute p",
        "prepare p from 'set @q = \"set names {}\"'; execute p; prepare r from @q",
        "set collation_connection = {}_general_ci",
        "set @@character_set_connection = '{}'",
    ],
)
def test_switch_to_an_unreadable_character_set_is_denied(session: SessionView, text: str, encoding: str) -> None:
    verdict = see(MySqlEncodings(), session, text.format(encoding))
    assert isinstance(verdict, Refuse)
    assert "utf8mb4" in verdict.hint


@pytest.mark.parametrize(
    "text",
    [
        "set names concat('g', 'bk')",
        "set character_set_client = (select 'gbk')",
        "set names 'utf8mb4' 'gbk'",
        "set names 'gbk",
        "set names default",
        "set character_set_client = @kept := 'gbk'",
        "set character_set_client = @kept = 1",
        "set collation_connection = 28",
    ],
)
def test_statement_with_an_undetermined_character_set_change_is_denied(session: SessionView, text: str) -> None:
    assert isinstance(see(MySqlEncodings(), session, text), Refuse)


@pytest.mark.parametrize(
    "text",
    [
        "set names utf8mb4",
        "SET NAMES 'utf8mb4' COLLATE utf8mb4_unicode_ci",
        "set names latin1",
        "set character set utf8",
        "/*!40101 SET character_set_client = utf8 */",
        "/*!40101 SET @saved_cs_client = @@character_set_client */",
        "/*!40101 SET character_set_client = @saved_cs_client */",
        "/*!40101 SET NAMES @OLD_CHARACTER_SET_CLIENT */",
        "set character_set_results = null",
        "set collation_connection = utf8mb4_unicode_ci",
        "/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */",
        "create table t (names varchar(10) character set gbk)",
        "select names, gbk from t",
        "select convert(x using gbk), _gbk'x' from t",
        "insert into t values ('set names gbk')",
        "prepare p from 'select 1'",
        "call p()",
        GRUESSE,
    ],
)
def test_statement_that_keeps_a_readable_character_set_passes(session: SessionView, text: str) -> None:
    one = MySqlEncodings()
    assert see(one, session, text) is FORWARD
    assert see(one, session, GRUESSE) is FORWARD


def test_session_in_an_unknown_character_set_can_only_switch_to_a_readable_one(session: SessionView) -> None:
    one = MySqlEncodings()
    for text in ("select 1", "set names @x", "set names utf8mb4; select 1", "set names utf8mb4, @x = 1", GRUESSE):
        assert isinstance(see(one, session, text, "?"), Refuse), text
    assert see(one, session, "set names utf8mb4", "?") is FORWARD


def test_attack_non_ascii_text_is_denied_after_execute_of_an_unknown_text(session: SessionView) -> None:
    one = MySqlEncodings()
    assert see(one, session, "select note into @q from orders") is FORWARD
    assert see(one, session, "prepare p from @q") is FORWARD
    assert see(one, session, "execute p") is FORWARD
    assert see(one, session, "select 1") is FORWARD
    verdict = see(one, session, GRUESSE)
    assert isinstance(verdict, Refuse)
    assert "SET NAMES utf8mb4" in verdict.hint
    assert see(one, session, "set names utf8mb4") is FORWARD
    assert see(one, session, GRUESSE) is FORWARD
    assert see(one, session, "execute p") is FORWARD
    assert isinstance(see(one, session, GRUESSE), Refuse)


def test_preparing_an_execute_leaves_the_character_set_known(session: SessionView) -> None:
    one = MySqlEncodings()
    assert see(one, session, "execute p", phase=Phase.PREPARE) is FORWARD
    assert see(one, session, GRUESSE) is FORWARD
    assert isinstance(see(one, session, "set names gbk", phase=Phase.PREPARE), Refuse)


def test_long_character_set_change_is_held_and_denied_in_the_background(session: SessionView) -> None:
    verdict = see(MySqlEncodings(), session, "set names gbk -- " + "x" * AT_ONCE)
    assert isinstance(verdict, Hold)
    assert verdict.work is not None
    assert isinstance(verdict.work(), Refuse)


@pytest.mark.parametrize(
    "text",
    [
        "begin not atomic set names latin1; end",
        "execute immediate 'set names latin1'",
        "set collation_connection = @x; prepare p from 'select 1'; execute p",
        "set character set utf8; prepare p from 'select 1'; execute p",
        "prepare p from _gbk'select 1'; execute p",
    ],
)
def test_attack_non_ascii_text_is_denied_after_an_untracked_charset_change(session: SessionView, text: str) -> None:
    one = MySqlEncodings()
    assert see(one, session, text) is FORWARD
    assert isinstance(see(one, session, GRUESSE), Refuse)
    assert see(one, session, "set names utf8mb4") is FORWARD
    assert see(one, session, GRUESSE) is FORWARD


def test_attack_nested_executes_of_many_texts_end(session: SessionView) -> None:
    """Each of a few short statements ran two hundred of the next, which blocked the relay worker for hours."""
    one = MySqlEncodings()
    for text in (
        f"prepare a from '{'execute b;' * 180}'",
        f"prepare b from '{'execute c;' * 180}'",
        f"prepare c from '{'execute d;' * 180}'",
        f"prepare d from '{'do 1;' * 180}'",
        "execute a",
    ):
        verdict = see(one, session, text)
        if isinstance(verdict, Hold):
            assert verdict.work is not None
            verdict.work()


def test_attack_short_execute_of_a_long_text_is_held_for_background_judgement(session: SessionView) -> None:
    one = MySqlEncodings()
    assert see(one, session, "prepare a from 'do 1'") is FORWARD
    assert see(one, session, "execute a") is FORWARD
    held = see(one, session, f"prepare a from 'do {'1 + ' * AT_ONCE} @a'")
    assert isinstance(held, Hold)
    assert held.work is not None
    held.work()
    assert isinstance(see(one, session, "execute a"), Hold)


def test_attack_more_variables_than_the_limit_are_forgotten(session: SessionView) -> None:
    one = MySqlEncodings()
    for number in range(1200):
        see(one, session, f"set @v{number} = 'x'")
    assert one._state.prepared_texts.is_lost
    assert not one._state.prepared_texts.variables
