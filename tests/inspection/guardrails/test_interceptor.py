from __future__ import annotations

from uuid import UUID

import pytest
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType, Unknown
from postern.errors import Invalid
from postern.inspection.guardrails import guardrail_findings
from postern.inspection.guardrails.guardrail_findings import StatementCache
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.interception.events import Channel, ClientOutput, Operation, Output, Phase, Rows
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.wire.postgres_output import CopiedLines
from postern.protocols.postgres.wire.postgres_rows import PostgresRows, layout_of

JSON_OID, INTEGER_OID = 114, 23


# Events as the wire makes them, since these tests are run on compiled code too, where no class here could be one.
def rows(columns: list[tuple[str, int]], *lines: tuple[bytes, ...]) -> Rows:
    block = b"".join(pg.data_row(*line) for line in lines)
    return PostgresRows(1, layout_of(pg.row_description(*columns)[5:]), block, len(lines))


def output(texts: list[bytes], channel: Channel = Channel.ERROR) -> Output:
    made = CopiedLines(1, texts)
    made.channel = channel
    return made


def words(*items: str, name: str | None = None) -> Rule:
    return Rule(RuleType.DENY_WORDS_LIST, words=items, name=name)


def pattern(expression: str, name: str | None = None) -> Rule:
    return Rule(RuleType.PATTERN_MATCH, pattern_regex=expression, name=name)


def rail(name: str, *, on_input: tuple[Rule, ...] = (), on_output: tuple[Rule, ...] = ()) -> Guardrail:
    return Guardrail(UUID(int=1), UUID(int=2), name, input=on_input, output=on_output)


DESTRUCTIVE = rail(
    "no destructive statements",
    on_input=(
        words("truncate", "grant", name="words"),
        pattern(r"(?i)drop\s+table", name="drop"),
        pattern("(?i)delete"),
    ),
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("DROP TABLE customers", "drop"),
        ("drop/**/table customers", "drop"),
        ("select '/*'; drop/* '*/table x", "drop"),
        ("Truncate customers", "words"),
        ("delete from customers", "3"),
        ("DO $$ begin drop --\n table x; end $$", "drop"),
    ],
)
def test_denial_message_names_the_guardrail_and_the_rule(session: SessionView, text: str, rule: str) -> None:
    verdict = GuardrailInterceptor((DESTRUCTIVE,)).see(Operation(1, text), session)
    assert isinstance(verdict, Refuse)
    beginning, hit = verdict.message.split(': "')
    assert beginning == f'blocked by guardrail "no destructive statements" (rule "{rule}")'
    assert hit.endswith('" matches it')
    assert verdict.rule == f"no destructive statements / {rule}"
    assert "shop" in verdict.hint


@pytest.mark.parametrize("text", ["select 1", "select dropped, granted from t", "", "insert into drops values (1)"])
def test_statement_without_matching_rule_is_forwarded(session: SessionView, text: str) -> None:
    assert GuardrailInterceptor((DESTRUCTIVE,)).see(Operation(1, text), session) is FORWARD


@pytest.mark.parametrize("phase", Phase)
def test_statement_is_denied_when_prepared_as_when_run(session: SessionView, phase: Phase) -> None:
    assert isinstance(GuardrailInterceptor((DESTRUCTIVE,)).see(Operation(1, "drop table x", phase), session), Refuse)


def test_each_bind_value_is_judged_separately(session: SessionView) -> None:
    rails = GuardrailInterceptor((DESTRUCTIVE,))
    assert isinstance(rails.see(Operation(1, "select $1", values=(None, b"x", b"drop table y")), session), Refuse)
    assert rails.see(Operation(1, "select $1", values=(b"drop", b"table")), session) is FORWARD
    assert rails.see(Operation(1, "select $1", values=(None,)), session) is FORWARD


def test_repeated_statement_gets_the_same_verdict(session: SessionView) -> None:
    rails = GuardrailInterceptor((DESTRUCTIVE,))
    first = [rails.see(Operation(n, text), session) for n, text in enumerate(["select 1", "drop table x"])]
    again = [rails.see(Operation(n, text), session) for n, text in enumerate(["select 1", "drop table x"])]
    assert first == again


def test_statement_too_large_to_be_judged_is_denied(session: SessionView) -> None:
    verdict = GuardrailInterceptor((DESTRUCTIVE,)).see(
        Operation(1, "select $1", values=(b"x",), truncated=True), session
    )
    assert isinstance(verdict, Refuse)
    assert verdict.message.startswith("this is too large to be evaluated by guardrail")


SECRET = rail("no secrets", on_output=(pattern("BEGIN [A-Z ]*PRIVATE KEY", name="keys"), words("top secret")))


def test_output_rules_judge_every_column_and_every_output_channel(session: SessionView) -> None:
    rails = GuardrailInterceptor((SECRET,))
    clean = rows([("a", 25), ("b", INTEGER_OID)], (b"a", b"1"), (b"b", b"2"))
    assert rails.see(clean, session) is FORWARD
    dirty = rows([("a", 25), ("b", JSON_OID)], (b"a", b"{}"), (b"b", b'{"k": "-----BEGIN RSA PRIVATE KEY"}'))
    verdict = rails.see(dirty, session)
    assert isinstance(verdict, Refuse)
    assert 'rule "keys"' in verdict.message
    for channel in Channel:
        assert isinstance(rails.see(output([b"ok", b"it is Top  Secret"], channel), session), Refuse)
        assert rails.see(output([b"it is top", b"secret"], channel), session) is FORWARD
    assert rails.see(rows([]), session) is FORWARD


def test_interceptor_requests_only_the_events_that_its_rules_need() -> None:
    assert GuardrailInterceptor(()).wants == frozenset()
    assert GuardrailInterceptor((DESTRUCTIVE,)).wants == {Operation}
    assert GuardrailInterceptor((SECRET,)).wants == {Rows, Output}
    assert GuardrailInterceptor((SECRET, DESTRUCTIVE)).wants == {Operation, Rows, Output}


def test_input_rule_ignores_output_and_output_rule_ignores_input(session: SessionView) -> None:
    rails = GuardrailInterceptor((SECRET, DESTRUCTIVE))
    assert rails.see(Operation(1, "select 'top secret'"), session) is FORWARD
    assert rails.see(output([b"drop table x"]), session) is FORWARD
    assert rails.see(ClientOutput(b"drop table x"), session) is FORWARD


def test_rule_that_does_not_compile_raises_invalid() -> None:
    with pytest.raises(Invalid, match="does not compile"):
        GuardrailInterceptor((rail("broken", on_input=(words("x"), pattern("(a"))),))


def test_interceptors_with_equal_guardrails_share_compiled_rules() -> None:
    assert GuardrailInterceptor((DESTRUCTIVE,))._rules is GuardrailInterceptor((DESTRUCTIVE,))._rules


def test_statement_cache_is_bounded_in_entries_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardrail_findings, "CACHED_STATEMENTS", 10)
    monkeypatch.setattr(guardrail_findings, "CACHED_BYTES", 100)
    cache = StatementCache()
    for number in range(100):
        cache.put(f"{number:05}", None)
    assert len(cache) == 10
    assert cache.get("00099") == (None,)
    assert cache.get("00089") is None
    for number in range(5):
        cache.put(f"{number:030}", None)
    assert len(cache) == 3
    cache.put("x" * (guardrail_findings.CACHED_STATEMENT_BYTES + 1), None)
    assert len(cache) == 3


def test_statement_cache_evicts_the_oldest_entry_at_its_byte_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardrail_findings, "CACHED_BYTES", 100)
    cache = StatementCache()
    for number in range(10):
        cache.put(f"{number:010}", None)
    assert len(cache) == 10
    cache.put("x", None)
    assert len(cache) == 10
    assert cache.get(f"{0:010}") is None


def test_statement_cache_evicts_the_least_recently_used_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardrail_findings, "CACHED_STATEMENTS", 2)
    cache = StatementCache()
    cache.put("a", None)
    cache.put("b", None)
    assert cache.get("a") == (None,)
    cache.put("c", None)
    assert cache.get("a") == (None,)
    assert cache.get("b") is None


@pytest.mark.parametrize(
    ("rules", "need"),
    [
        ((), BatchNeed.NONE),
        ((Rule(RuleType.DENY_WORDS_LIST, words=("a",), action=Action.WARN),), BatchNeed.NONE),
        ((words("a"),), BatchNeed.DENY),
        ((Rule(RuleType.READ_ONLY, action=Action.WARN, unknown=Unknown.DENY),), BatchNeed.DENY),
        ((Rule(RuleType.READ_ONLY, action=Action.WARN, unknown=Unknown.ALLOW),), BatchNeed.NONE),
        ((words("a"), Rule(RuleType.REQUIRE_WHERE, action=Action.REVIEW)), BatchNeed.REVIEW),
        ((Rule(RuleType.READ_ONLY, unknown=Unknown.REVIEW), words("a")), BatchNeed.REVIEW),
    ],
)
def test_batch_need_is_that_of_the_strictest_input_rule(rules: tuple[Rule, ...], need: BatchNeed) -> None:
    rails = (rail("some", on_input=rules), rail("output", on_output=(words("b"),)))
    assert GuardrailInterceptor(rails, PostgresParser()).batch_need is need
