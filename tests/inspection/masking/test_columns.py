"""Rules about columns: which columns match, and how columns of unknown origin are handled."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from tests.support.protocols.postgres_test_messages import split

from postern.domain.rules.masking import InfoType, MaskingRule, Strategy, Strictness, TypeGroup
from postern.domain.targets.target_schema import ColumnRef, Origin, Relation, TargetSchema
from postern.inspection.masking.answered_statements import MAX_STATEMENTS
from postern.inspection.masking.masking_interceptor import NOT_INSPECTED, Masking
from postern.inspection.masking.origins import ColumnPatterns, Sources
from postern.inspection.masking.samples import SampleRows
from postern.interception.events import Change, Column, Note, Operation, Phase, Rows, TextKind
from postern.interception.pipeline import Pipeline, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Refuse, Verdict
from postern.protocols.postgres.dialect.postgres_statement_facts import PostgresStatementFacts
from postern.protocols.postgres.wire.postgres_output import CopiedLines, PostgresText

from ..conftest import ListOutput, ListRows, make_session

FACTS = PostgresStatementFacts()


NO_ID = UUID(int=0)
EMAIL, NAME, TOTAL = (ColumnRef("public", "users", name) for name in ("email", "name", "total"))
FOUND = (TypeGroup("CONTACT", ("EMAIL_ADDRESS",)),)


class Known:
    """Known origins by statement: other statements cannot be judged. A column is computed if it has several sources,
    or with `computed`."""

    def __init__(
        self,
        refs: Mapping[str, tuple[frozenset[ColumnRef] | None, ...]],
        tags: dict[ColumnRef, frozenset[str]] | None = None,
        computed: bool = False,
    ) -> None:
        self._sources: dict[str, Sources] = {
            text: tuple(None if one is None else _origin(one, computed) for one in found)
            for text, found in refs.items()
        }
        self._tags = tags or {}
        self.heard: list[str] = []

    def add(self, statement: str, *origins: Origin) -> None:
        self._sources[statement] = origins

    def record_statement(self, statement: str) -> None:
        self.heard.append(statement)

    def unread(self, statement: str) -> None:
        return None

    def of(self, statement: str, columns: tuple[Column, ...]) -> Sources | None:
        return self._sources.get(statement)

    def tags(self, column: ColumnRef) -> frozenset[str]:
        return self._tags.get(column, frozenset())


def _origin(refs: frozenset[ColumnRef], computed: bool) -> Origin:
    return Origin(refs, frozenset() if computed or len(refs) != 1 else frozenset({refs}))


def rule(name: str = "pii", **changes: Any) -> MaskingRule:
    return MaskingRule(NO_ID, NO_ID, name, **changes)


def masked_row(
    masking: Masking, statement: str, columns: Sequence[str], *row: str | None, session: SessionView | None = None
) -> tuple[str | None, ...] | Refuse:
    view = session or make_session()
    masking.see(Operation(0, statement), view)
    rows = SampleRows(columns, [row])
    verdict = masking.see(rows, view)
    return verdict if isinstance(verdict, Refuse) else rows.visible_rows()[0]


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("email", True),
        ("EMAIL", True),
        ("e*l", True),
        ("*", True),
        ("mail", False),
        ("users.email", True),
        ("*.email", True),
        ("user*.e*", True),
        ("orders.email", False),
        ("public.users.email", True),
        ("other.users.email", False),
        ("*.*.*", True),
        ("tag:secret", True),
        ("tag:SEC*", True),
        ("tag:open", False),
        ("e.*l", False),
    ],
)
def test_column_pattern_matches_names_tables_and_tags(pattern: str, meant: bool) -> None:
    assert ColumnPatterns([pattern]).match(EMAIL, frozenset({"secret", "x"})) is meant


@pytest.mark.parametrize("columns", [("email",), ("users.email",), ("public.*.email",), ("tag:secret",)])
def test_value_derived_from_a_masked_column_is_masked_under_any_name(columns: tuple[str, ...]) -> None:
    """Attack: `select email as x`, `upper(email)`, a view."""
    known = Known({"q": (frozenset(), frozenset({EMAIL, NAME}))}, {EMAIL: frozenset({"secret"})})
    masking = Masking(frozenset(), (rule(columns=columns),), origins=known, facts=FACTS)
    assert masked_row(masking, "q", ["id", "x"], "1", "ann") == ("1", "****")


def test_column_is_masked_by_its_name_in_the_answer_without_lineage() -> None:
    for origins in (None, Known({"q": (frozenset(),)})):
        masking = Masking(frozenset(), (rule(columns=("email",)),), origins=origins)
        assert masked_row(masking, "q", ["Email"], "ann") == ("****",)


@pytest.mark.parametrize(
    ("patterns", "needs_origins"),
    [(("email",), False), (("e*", "name"), False), (("users.email",), True), (("email", "tag:pii"), True)],
)
def test_only_patterns_of_tables_and_tags_need_lineage(patterns: tuple[str, ...], needs_origins: bool) -> None:
    assert ColumnPatterns(patterns).needs_origins is needs_origins


def test_each_result_of_one_request_is_masked_by_its_own_columns() -> None:
    """A simple query can hold several statements, and a procedure can return several results."""
    for origins in (None, Known({})):
        masking = Masking(frozenset(), (rule(columns=("email",), strictness=Strictness.BEST_EFFORT),), origins=origins)
        session = make_session()
        results = [
            SampleRows(["id", "email"], [["7", "ann"]]),
            SampleRows(["email", "id"], [["ann", "7"]]),
            SampleRows(["id"], [["7"]]),
            SampleRows(["email"], [["ann"]]),
        ]
        for result in results:
            masking.see(result, session)
        assert [result.visible_rows()[0] for result in results] == [("7", "****"), ("****", "7"), ("7",), ("****",)]


def test_strict_rule_denies_columns_of_unknown_lineage() -> None:
    known = Known({"half": (frozenset(), None)})
    for statement in ("half", "all"):
        session = make_session()
        masking = Masking(frozenset(), (rule(columns=("email",)),), origins=known, facts=FACTS)
        refused = masked_row(masking, statement, ["id", "x"], "1", "ann", session=session)
        assert isinstance(refused, Refuse)
        assert "masking rule 'pii'" in refused.message
        assert session.metrics.not_inspected == 1


class LaterRows(ListRows):
    """Rows of a statement of an earlier request."""

    @property
    def began(self) -> int:
        return 1


def test_rows_of_a_request_that_reads_on_have_the_lineage_of_its_text() -> None:
    known = Known({"names": (frozenset(), frozenset({NAME}))})
    masking = Masking(frozenset(), (rule(columns=("email",)),), origins=known, facts=FACTS)
    for exchange, continues in ((2, 1), (3, 0)):
        session = make_session()
        rows = LaterRows((TextKind.TEXT, [b"1"]), (TextKind.TEXT, [b"Ann"]))
        rows.exchange = exchange
        masking.see(Operation(exchange, "names", continues=continues), session)
        verdict = masking.see(rows, session)
        assert verdict is FORWARD if continues else isinstance(verdict, Refuse)


def test_strict_rule_about_a_table_denies_rows_without_lineage() -> None:
    masking = Masking(frozenset(), (rule(columns=("users.email",)),))
    assert isinstance(masked_row(masking, "q", ["id"], "1"), Refuse)


def test_best_effort_rule_searches_columns_of_unknown_lineage_for_values() -> None:
    lenient = rule(columns=("users.email",), groups=FOUND, strictness=Strictness.BEST_EFFORT)
    masking = Masking(frozenset(), (lenient,), origins=Known({}))
    assert masked_row(masking, "q", ["x", "y"], "ann@example.com", "ann") == ("****@****", "ann")


@pytest.mark.parametrize("others", [(), (rule("types", groups=FOUND),)])
@pytest.mark.parametrize("groups", [(), FOUND])
@pytest.mark.parametrize("types", [frozenset(), frozenset({InfoType.EMAIL_ADDRESS})])
def test_strict_rule_denies_unknown_lineage_despite_configured_types(
    types: frozenset[InfoType], groups: tuple[TypeGroup, ...], others: tuple[MaskingRule, ...]
) -> None:
    """Attack: `select peek(1)` while a rule or the connection configures information types."""
    rules = (rule(columns=("users.email",), groups=groups), *others)
    masking = Masking(types, rules, origins=Known({}))
    assert isinstance(masked_row(masking, "q", ["x"], "ann"), Refuse)
    assert isinstance(masked_copy(masking, COPY, b"ann\n"), Refuse)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("name", ["x", "email"])
def test_computed_value_becomes_one_constant_with_every_strategy(strategy: Strategy, name: str) -> None:
    """Attack: compute a value whose hash, first letter or absence reveals its source."""
    known = Known({"q": (frozenset({EMAIL}),)}, computed=True)
    masking = Masking(frozenset(), (rule(columns=("email",), strategy=strategy),), b"k" * 32, known, facts=FACTS)
    cells = {
        masked_row(masking, "q", [name], cell) for cell in ("ann", "ann@example.com", "12345678", "", None, "****")
    }
    assert cells == {(None if strategy is Strategy.NULL else "****",)}


def test_value_named_like_a_masked_column_becomes_a_constant() -> None:
    """Attack: `select 'guess' as email`, or another column under that name, to compare hashes with."""
    known = Known({"constant": (frozenset(),), "other": (frozenset({NAME}),), "unknown": (None,)})
    masking = Masking(frozenset(), (rule(columns=("email",), strategy=Strategy.HASH),), b"k" * 32, known, facts=FACTS)
    for statement in ("constant", "other", "unknown"):
        assert masked_row(masking, statement, ["email"], "guess") == ("****",)


def test_union_of_a_masked_and_an_unmasked_column_becomes_a_constant() -> None:
    """Attack: `select email from users union all select guess from mine`."""
    both = Origin(frozenset({EMAIL, NAME}), frozenset({frozenset({EMAIL}), frozenset({NAME})}))
    known = Known({})
    known.add("q", both)
    masking = Masking(frozenset(), (rule(columns=("email",), strategy=Strategy.HASH),), b"k" * 32, known, facts=FACTS)
    assert masked_row(masking, "q", ["x"], "ann") == ("****",)
    all_masked = Masking(
        frozenset(), (rule(columns=("email", "name"), strategy=Strategy.HASH),), b"k" * 32, known, facts=FACTS
    )
    assert str(masked_row(all_masked, "q", ["x"], "ann")).startswith("('h_")


def test_best_effort_rule_forwards_and_notes_uninspected_rows_once_per_request() -> None:
    session = make_session()
    masking = Masking(
        frozenset(), (rule(columns=("users.email",), strictness=Strictness.BEST_EFFORT),), origins=Known({})
    )
    assert masked_row(masking, "q", ["x"], "ann", session=session) == ("ann",)
    rows = SampleRows(["x"], [["bob"]])
    rows.exchange = 7
    assert masking.see(rows, session) is FORWARD
    again = SampleRows(["x"], [["bob"]])
    again.exchange = 7
    masking.see(again, session)
    assert session.metrics.not_inspected == 3
    assert session.notes == [Note(NOT_INSPECTED, {"why": "masking rule 'pii'", "exchange": "7"})]


def test_stricter_strategy_wins_if_two_rules_match_a_column() -> None:
    rules = [
        rule("part", columns=("email",), strategy=Strategy.PARTIAL),
        rule("none", columns=("e*",), strategy=Strategy.NULL),
        rule("hash", columns=("*",), strategy=Strategy.HASH),
    ]
    session = make_session()
    masking = Masking(frozenset(), rules, b"k" * 32)
    found = masked_row(masking, "q", ["email", "name"], "ann", "ann", session=session)
    assert isinstance(found, tuple)
    assert found[0] is None
    assert str(found[1]).startswith("h_")
    assert session.metrics.info_types == {"none": 1, "hash": 1}


def test_null_strategy_replaces_a_cell_that_contains_the_type() -> None:
    masking = Masking(frozenset(), (rule(groups=FOUND, strategy=Strategy.NULL),))
    assert masked_row(masking, "q", ["a", "b"], "to ann@example.com", "b") == (None, "b")
    output = ListOutput([b"Key (x)=(ann@example.com)"])
    assert masking.see(output, make_session()) is REPLACE
    assert output.held == [b"Key (x)=()"]


def masked_copy(masking: Masking, statement: str, *lines: bytes, first: bool = True) -> list[bytes] | Verdict:
    session = make_session()
    masking.see(Operation(1, statement), session)
    output = CopiedLines(1, list(lines), first)
    verdict = masking.see(output, session)
    return verdict if isinstance(verdict, Refuse) else [line for _, line in split(output.encode())]


COPY = "copy users to stdout"


def test_copied_columns_are_masked_by_position() -> None:
    known = Known({COPY: (frozenset(), frozenset({EMAIL}), frozenset({TOTAL}))})
    masking = Masking(frozenset(), (rule(columns=("email", "total")),), origins=known, facts=FACTS)
    assert masked_copy(masking, COPY, b"1\tan\\tn\t12.50\n", b"2\t\\N\t\\N\n") == [b"1\t****\t0\n", b"2\t\\N\t\\N\n"]
    masking = Masking(frozenset(), (rule(columns=("email",), strategy=Strategy.NULL),), origins=known, facts=FACTS)
    assert masked_copy(masking, COPY, b"1\tann\t12.50\n") == [b"1\t\\N\t12.50\n"]


@pytest.mark.parametrize(
    ("options", "line", "made"),
    [
        ("with csv", b'1,"ann ""x"", the\nfirst"\n', b"1,****\n"),
        ("(format csv, delimiter '|', null '-')", b"1|-\n", b"1|-\n"),
        ("(format csv, delimiter '|', null '-')", b"1|ann\n", b"1|****\n"),
        ("(format 'csv', quote '*', escape '#')", b"1,*an#*n##*\n", b"1,*#*#*#*#**\n"),
        ("(format csv, force_quote *)", b'"1","ann"\n', b'"1",****\n'),
        ("(format csv, null 'ann')", b'1,"ann"\n', b"1,****\n"),
        ("(format csv)", b'1,"an,n"\n', b"1,****\n"),
        ("delimiter as '|' null as ''", b"1|a\\|n\n", b"1|****\n"),
        ("delimiter as '|' null as ''", b"1|\n", b"1|\n"),
        ("delimiter '*'", b"1*ann\n", b"1*\\*\\*\\*\\*\n"),
        ("(null '****')", b"1\tann\n", b"1\t\\****\n"),
    ],
)
def test_copy_is_masked_in_the_format_of_its_options(options: str, line: bytes, made: bytes) -> None:
    statement = f"/* copy */ copy users to stdout {options};"
    known = Known({statement: (frozenset(), frozenset({EMAIL}))})
    masking = Masking(frozenset(), (rule(columns=("email",)),), origins=known, facts=FACTS)
    assert masked_copy(masking, statement, line) == [made]


def test_only_the_first_header_line_of_a_copy_stays_unmasked() -> None:
    statement = "copy users to stdout (format csv, header)"
    known = Known({statement: (frozenset(), frozenset({EMAIL}))})
    masking = Masking(frozenset(), (rule(columns=("email",)),), origins=known, facts=FACTS)
    assert masked_copy(masking, statement, b"id,email\n", b"1,ann\n") == [b"id,email\n", b"1,****\n"]
    assert masked_copy(masking, statement, b"1,ann\n", first=False) == [b"1,****\n"]


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("copy users to stdout binary", b"1\tann\n"),
        ("copy users to stdout (format json)", b"1\tann\n"),
        ("copy users to stdout (encoding 'SJIS')", b"1\tann\n"),
        ("copy users to stdout (new_option 1)", b"1\tann\n"),
        ("copy users to stdout; copy users to stdout csv", b"1\tann\n"),
        ("copy users to stdout", b"1\tann\tann\n"),
        ("copy users to stdout", b"ann\n"),
        ("copy users to stdout", b"1\tann"),
        ("copy users to stdout", b"1\tann\\\n"),
        ("copy users to stdout csv", b'1,"ann\n'),
        ("copy users to stdout csv", b'1,"ann"ann\n'),
        ("copy users to stdout csv", b'1,an"n\n'),
    ],
)
def test_strict_rule_denies_a_copy_whose_fields_cannot_be_separated(statement: str, line: bytes) -> None:
    """Attack: request a format in which the fields cannot be separated, or are not what they seem."""
    known = Known({statement: (frozenset(), frozenset({EMAIL}))})
    masking = Masking(frozenset(), (rule(columns=("email",)),), origins=known, facts=FACTS)
    assert isinstance(masked_copy(masking, statement, line), Refuse)
    session = make_session()
    mild = Masking(
        frozenset(), (rule(columns=("email",), strictness=Strictness.BEST_EFFORT),), origins=known, facts=FACTS
    )
    mild.see(Operation(1, statement), session)
    assert mild.see(CopiedLines(1, [line]), session) is FORWARD
    assert session.metrics.not_inspected == len(session.notes) == 1


def test_attack_copy_in_an_unreadable_encoding_is_denied() -> None:
    known = Known({COPY: (frozenset(), frozenset({EMAIL}))})
    masking = Masking(frozenset(), (rule(columns=("email",)),), origins=known, facts=FACTS)
    masking.see(Operation(1, COPY), make_session())
    assert isinstance(masking.see(CopiedLines(1, [b"1\tann\n"], True, is_unread=True), make_session()), Refuse)


def tuples(*cells: bytes | None) -> bytes:
    packed = [struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells]
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + struct.pack("!h", len(cells)) + b"".join(packed)


@pytest.mark.parametrize(
    ("statement", "email", "total"),
    [
        ("copy users (id, email, total) to stdout binary", b"****", struct.pack("!i", 0)),
        ("copy (select id, email, total from users) to stdout (format binary)", b"****", struct.pack("!i", 0)),
        ("copy (select id, upper(email), total + 1 from users) to stdout (format binary)", None, None),
    ],
)
def test_binary_copy_is_masked_by_the_column_types_of_the_catalogue(
    statement: str, email: bytes | None, total: bytes | None
) -> None:
    """The type of a computed value is unknown, so it becomes NULL."""
    found = {statement: (frozenset[ColumnRef](), frozenset({EMAIL}), frozenset({TOTAL}))}
    known = Known(found, computed="upper" in statement)
    session = make_session()
    relation = Relation("public", "users", ("id", "email", "total"), types=(23, 25, 23))
    session.schema = TargetSchema({("public", "users"): relation})
    masking = Masking(frozenset(), (rule(columns=("email", "total")),), origins=known, facts=FACTS)
    masking.see(Operation(1, statement), session)
    body = tuples(b"1", b"ann", struct.pack("!i", 42))
    output = PostgresText(1, ord("d"), body, True)
    assert masking.see(output, session) is REPLACE
    assert output.encode()[5:] == tuples(b"1", email, total)
    end = PostgresText(1, ord("d"), b"\xff\xff", True)
    assert masking.see(end, session) is FORWARD


def test_attack_rows_of_an_ambiguous_statement_name_are_masked_by_both_statements() -> None:
    """Prepare a second statement under a used name, which fails, and run that name in the same batch."""
    known = Known({"select email": (frozenset({EMAIL}),), "select 1": (frozenset(),)})
    masking = Masking(frozenset(), (rule(columns=("email",)),), origins=known, facts=FACTS)
    masking.see(Operation(1, "select email"), make_session())
    masking.see(Operation(1, "select 1"), make_session())
    rows = SampleRows(["x"], [["ann"]])
    rows.exchange = 1
    assert isinstance(masking.see(rows, make_session()), type(REPLACE))
    assert rows.texts(0) == [b"****"]


def test_copy_without_masked_columns_passes_unchanged() -> None:
    known = Known({"copy t to stdout (format csv)": (frozenset({NAME}),)})
    masking = Masking(frozenset(), (rule(columns=("email",)),), origins=known, facts=FACTS)
    assert masked_copy(masking, "copy t to stdout (format csv)", b"ann\n") == [b"ann\n"]


def test_strict_rule_denies_a_copy_of_unknown_lineage() -> None:
    for origins in (None, Known({})):
        masking = Masking(frozenset(), (rule(columns=("email",)),), origins=origins)
        assert isinstance(masked_copy(masking, COPY, b"1\tann\n"), Refuse)


class Broken(Rows):
    """Rows that cannot be read."""

    def __init__(self) -> None:
        self.exchange = 3
        self.columns = (Column("x", TextKind.TEXT),)
        self.count = 1

    def texts(self, column: int) -> list[bytes]:
        raise ValueError("unreadable")

    def change(self, column: int, by: Change) -> tuple[int, int]:
        raise ValueError("unreadable")


@pytest.mark.parametrize("strictness", Strictness)
def test_rows_that_cannot_be_inspected_are_denied_or_noted_by_strictness(strictness: Strictness) -> None:
    session = make_session()
    masking = Masking(frozenset(), (rule(groups=FOUND, strictness=strictness),))
    verdict = Pipeline([masking], session).judge(Broken(), Rows)
    assert session.metrics.not_inspected == 1
    if strictness is Strictness.STRICT:
        assert isinstance(verdict, Refuse)
        assert session.notes == []
    else:
        assert not isinstance(verdict, Refuse)
        assert session.notes == [Note(NOT_INSPECTED, {"why": "ValueError", "exchange": "3"})]


def test_one_strict_rule_denies_rows_that_cannot_be_inspected() -> None:
    rules = [rule(groups=FOUND, strictness=Strictness.BEST_EFFORT), rule("b", columns=("y",))]
    assert isinstance(Pipeline([Masking(frozenset(), rules)], make_session()).judge(Broken(), Rows), Refuse)


def test_masking_remembers_a_bounded_number_of_statements() -> None:
    known = Known({})
    masking = Masking(frozenset(), (rule(columns=("x",)),), origins=known, facts=FACTS)
    for number in range(MAX_STATEMENTS + 5):
        masking.see(Operation(number, "q"), make_session())
    masking.see(Operation(1, "p", Phase.PREPARE), make_session())
    stored = [number for number in range(MAX_STATEMENTS + 5) if masking._statements.of_answer(number)]
    assert stored == list(range(5, MAX_STATEMENTS + 5))
    assert known.heard[-1] == "p"


def test_attack_remembered_statements_are_bounded_to_four_megabytes() -> None:
    masking = Masking(frozenset(), (rule(columns=("x",)),), origins=Known({}))
    for number in range(1, 50):
        masking.see(Operation(number, "x" * 1024 * 1024), make_session())
    assert [number for number in range(1, 50) if masking._statements.of_answer(number)] == [46, 47, 48, 49]


def test_answered_statements_are_forgotten() -> None:
    masking = Masking(frozenset(), (rule(columns=("x",)),), origins=Known({}))
    for number in range(1, 50):
        masking.see(Operation(number, "q"), make_session())
    rows = SampleRows(["x"], [["1"]])
    rows.exchange = 40
    masking.see(rows, make_session())
    assert [number for number in range(1, 50) if masking._statements.of_answer(number)] == list(range(40, 50))
