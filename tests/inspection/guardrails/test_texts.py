"""Actions on text: masks, warnings, word matching and row limits."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.interception.events import Channel, Operation, Output, Rows
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Refuse, Verdict, Warn
from postern.protocols.postgres.wire.postgres_output import CopiedLines
from postern.protocols.postgres.wire.postgres_rows import PostgresRows, layout_of

TEXT, JSON, NUMERIC = 25, 114, 1700


def rails(*rules: Rule, on_input: tuple[Rule, ...] = ()) -> GuardrailInterceptor:
    return GuardrailInterceptor((Guardrail(UUID(int=1), UUID(int=2), "care", input=on_input, output=rules),))


def rows(oid: int, *cells: bytes) -> PostgresRows:
    block = b"".join(pg.data_row(cell) for cell in cells)
    return PostgresRows(1, layout_of(pg.row_description(("c", oid))[5:]), block, len(cells))


def copied(*lines: bytes) -> Output:
    made = CopiedLines(1, list(lines))
    made.channel = Channel.COPY
    return made


def is_masked(verdict: Verdict) -> bool:
    """Whether the verdict masks and warns, as for the first mask of a rule."""
    return isinstance(verdict, Warn) and verdict.message.startswith('masked by guardrail "care" (rule "no secrets!")')


MASK = Rule(RuleType.PATTERN_MATCH, pattern_regex="secret-[0-9]+", name="no secrets!", action=Action.MASK)


def test_mask_rule_replaces_only_the_match(session: SessionView) -> None:
    event = rows(TEXT, b"a secret-1 and secret-22.", b"nothing", "ü secret-3".encode())
    assert is_masked(rails(MASK).see(event, session))
    assert event.texts(0) == [
        b"a [masked:no-secrets-] and [masked:no-secrets-].",
        b"nothing",
        "ü [masked:no-secrets-]".encode(),
    ]
    assert session.metrics.transformed_bytes == 8 + 9 + 8
    assert rails(MASK).see(event, session) is FORWARD  # masked twice is masked once


def test_client_is_warned_of_masking_once_per_rule(session: SessionView) -> None:
    other = Rule(RuleType.DENY_WORDS_LIST, words=("hush",), action=Action.MASK, message="Hush is not for you.")
    found = GuardrailInterceptor(
        (Guardrail(UUID(int=1), UUID(int=2), "care", output=(MASK, other)),), access_help="Ask in #access."
    )
    first = found.see(rows(TEXT, b"secret-1"), session)
    assert isinstance(first, Warn)
    assert first.hint == 'If you need this on connection "shop": Ask in #access. This notice appears once.'
    assert found.see(rows(TEXT, b"secret-2"), session) is REPLACE
    second = found.see(rows(TEXT, b"secret-3", b"hush"), session)
    assert isinstance(second, Warn)
    assert second.message == "Hush is not for you. [care / 2]"
    assert found.see(rows(TEXT, b"secret-3", b"hush"), session) is REPLACE


def test_masked_json_document_stays_valid(session: SessionView) -> None:
    event = rows(JSON, b'{"a": "x \\" secret-1 \\u00fc", "b": [1, "secret-2"]}')
    assert is_masked(rails(MASK).see(event, session))
    assert json.loads(event.texts(0)[0]) == {"a": "[masked:no-secrets-]", "b": [1, "[masked:no-secrets-]"]}


def test_attack_json_document_of_50000_matching_strings_is_masked(session: SessionView) -> None:
    """Quadratic time once blocked the relay worker for minutes."""
    event = rows(JSON, json.dumps(["secret-1"] * 50_000).encode())
    word = Rule(RuleType.DENY_WORDS_LIST, words=("secret-1",), name="no secrets!", action=Action.MASK)
    assert is_masked(rails(word).see(event, session))
    assert json.loads(event.texts(0)[0]) == ["[masked:no-secrets-]"] * 50_000


@pytest.mark.parametrize(
    ("event", "pattern"),
    [
        (rows(NUMERIC, b"12345"), "234"),
        (rows(JSON, b'{"a": 12345}'), "234"),
        (rows(JSON, b'{"a": "x", "b": "y"}'), "x.*y"),
        (rows(TEXT, b'{one,"secret-1 "}'), 'secret-1 "'),
        (copied(b"a\tsecret\tb\n"), "secret.b"),
        (copied(b'"a","secret"\n'), '"secret"'),
        (copied(b"\xfcber secret\n"), "secret"),
    ],
)
def test_value_that_cannot_be_masked_safely_is_denied(session: SessionView, event: Rows | Output, pattern: str) -> None:
    verdict = rails(Rule(RuleType.PATTERN_MATCH, pattern_regex=pattern, action=Action.MASK)).see(event, session)
    assert isinstance(verdict, Refuse)
    assert "cannot be masked" in verdict.message


def test_masked_copy_lines_keep_their_columns(session: SessionView) -> None:
    event = copied(b"1\tsecret-1\t\\N\n", b"2\tx\ty\n")
    assert is_masked(rails(MASK).see(event, session))
    assert event.texts() == [b"1\t[masked:no-secrets-]\t\\N\n", b"2\tx\ty\n"]


def test_matching_text_that_is_not_utf8_is_masked_whole(session: SessionView) -> None:
    event = rows(TEXT, b"\xfcber secret-1")
    assert is_masked(rails(MASK).see(event, session))
    assert event.texts(0) == [b"[masked:no-secrets-]"]


def test_denial_overrides_masking_and_masking_combines_with_a_warning(session: SessionView) -> None:
    deny = Rule(RuleType.DENY_WORDS_LIST, words=("top",))
    warn = Rule(RuleType.DENY_WORDS_LIST, words=("mind",), action=Action.WARN)
    assert isinstance(rails(MASK, warn, deny).see(rows(TEXT, b"top secret-1"), session), Refuse)
    event = rows(TEXT, b"mind secret-1")
    verdict = rails(MASK, warn, deny).see(event, session)
    assert isinstance(verdict, Warn)
    assert verdict.message == 'warning of guardrail "care" (rule "2")'
    assert event.texts(0) == [b"mind [masked:no-secrets-]"]


@pytest.mark.parametrize(
    ("rule", "hits", "leaves"),
    [
        (Rule(RuleType.DENY_WORDS_LIST, words=("drop",)), ["DROP x", "x;drop"], ["dropped", "drop_x"]),
        (Rule(RuleType.DENY_WORDS_LIST, words=("drop",), whole_words=False), ["DROPPED", "adrop"], ["dro p"]),
        (Rule(RuleType.DENY_WORDS_LIST, words=("drop",), case_sensitive=True), ["drop x"], ["DROP x", "dropped"]),
    ],
)
def test_deny_words_list_rule_denies_matches_only(
    session: SessionView, rule: Rule, hits: list[str], leaves: list[str]
) -> None:
    for text in hits:
        assert isinstance(rails(on_input=(rule,)).see(Operation(1, text), session), Refuse), text
    for text in leaves:
        assert rails(on_input=(rule,)).see(Operation(1, text), session) is FORWARD, text


def test_max_rows_rule_counts_rows_and_copied_lines_per_answer(session: SessionView) -> None:
    judge = rails(Rule(RuleType.MAX_ROWS, most=3), Rule(RuleType.MAX_ROWS, most=5))
    assert judge.wants == {Operation, Rows, Output}
    assert judge.see(rows(TEXT, b"1", b"2"), session) is FORWARD
    assert judge.see(rows(TEXT, b"3"), session) is FORWARD
    over = judge.see(rows(TEXT, b"4"), session)
    assert isinstance(over, Refuse)
    assert over.message.endswith("the result has more than 3 rows")
    assert fetch_is_forwarded(judge, session, 2, "select 1", 3)
    lines = CopiedLines(3, [b"x\n"] * 4)
    assert isinstance(judge.see(lines, session), Refuse)


def fetch_is_forwarded(judge: GuardrailInterceptor, session: SessionView, exchange: int, text: str, count: int) -> bool:
    """Run the statement, fetch `count` rows and return whether they are forwarded."""
    judge.see(Operation(exchange, text), session)
    event = PostgresRows(exchange, layout_of(pg.row_description(("c", TEXT))[5:]), pg.data_row("1") * count, count)
    return judge.see(event, session) is FORWARD


def test_attack_max_rows_rule_counts_rows_of_successive_fetches_from_a_cursor(session: SessionView) -> None:
    judge = rails(Rule(RuleType.MAX_ROWS, most=3))
    judge.see(Operation(1, "declare c cursor for select 1"), session)
    assert fetch_is_forwarded(judge, session, 2, "fetch 2 from c", 2)
    assert fetch_is_forwarded(judge, session, 3, "select 1 fetch first 3 rows only", 3)
    assert fetch_is_forwarded(judge, session, 4, "/* x */ FETCH next from C;", 1)
    assert not fetch_is_forwarded(judge, session, 5, 'fetch forward 1 in "c"', 1)
    assert fetch_is_forwarded(judge, session, 6, "fetch 2 from other", 2)
    judge.see(Operation(7, "close c; declare c cursor for select 1"), session)
    assert fetch_is_forwarded(judge, session, 8, "fetch c", 3)
    assert not fetch_is_forwarded(judge, session, 9, "fetch c; fetch c", 4)


def test_attack_max_rows_rule_counts_rows_of_interleaved_portals(session: SessionView) -> None:
    judge = rails(Rule(RuleType.MAX_ROWS, most=3))
    layout = layout_of(pg.row_description(("c", TEXT))[5:])
    for exchange, began, shown in ((1, 1, True), (2, 2, True), (3, 1, False), (4, 2, False), (5, 5, True)):
        block = pg.data_row("x") * 2
        assert (judge.see(PostgresRows(exchange, layout, block, 2, began), session) is FORWARD) is shown
