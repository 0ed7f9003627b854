"""Common parts of the parsers of all dialects: from tokens to one `Statement`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Key, TargetSchema
from postern.inspection.sql.sql_calls import Functions, calls_in
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, closing, dotted_name, key_at, keys
from postern.inspection.sql.sqlglot_tree import Grammar, TreeFacts, facts_of


@dataclass
class Draft:
    """Statement that is being built."""

    tag: str
    effects: set[Effect] = field(default_factory=set)
    objects: set[ObjectName] = field(default_factory=set)
    without_where: bool = False
    reason: str = ""
    scans: set[ObjectName] = field(default_factory=set)
    untraced: str = ""
    is_view_calling: bool = False

    def unknown(self, reason: str) -> None:
        self.effects.add(Effect.UNKNOWN)
        self.reason = self.reason or reason

    def add(self, *effects: Effect) -> None:
        self.effects.update(effects)

    def finish(self) -> Statement:
        if not self.effects:
            self.unknown("its effect is unknown")
        return Statement(
            self.tag,
            frozenset(self.effects),
            frozenset(self.objects),
            self.without_where,
            self.reason,
            frozenset(self.scans),
            self.untraced,
            self.is_view_calling,
        )


@dataclass(frozen=True, slots=True)
class Judging:
    """Knowledge about the dialect and the target for one text.

    `within` are the views whose definitions led to this text, the outermost first.
    """

    grammar: Grammar
    functions: Functions
    schema: TargetSchema | None
    within: tuple[Key, ...] = ()

    def add_calls(self, draft: Draft, tokens: Sequence[SqlToken]) -> None:
        """Add the effects of the called functions."""
        call_effects = calls_in(tokens, self.functions, self.schema)
        draft.effects |= call_effects.effects
        draft.objects |= call_effects.objects
        if call_effects.reason:
            draft.reason = draft.reason or call_effects.reason

    def add_query(self, draft: Draft, tokens: Sequence[SqlToken], verb: str) -> TreeFacts | None:
        """Add the facts of the tree and of the functions. The effect is unknown if the tree is not reliable."""
        self.add_calls(draft, tokens)
        try:
            facts = facts_of(tokens, verb, self.grammar)
        except UnreadableSql as error:
            draft.unknown(str(error))
            return None
        draft.effects |= facts.effects
        draft.objects |= facts.objects
        draft.without_where |= facts.without_where
        draft.scans |= facts.scans
        return facts

    def add_names(
        self, draft: Draft, tokens: Sequence[SqlToken], place: int, kind: ObjectKind = ObjectKind.TABLE
    ) -> None:
        """Add the comma-separated names at `place`."""
        while True:
            start = place
            parts, place = dotted_name(tokens, place)
            if not parts:
                return
            last = place - 1
            name = self._fold(tokens[last])
            schema = self._fold(tokens[start]) if len(parts) == 2 else parts[-2].lower() if len(parts) > 2 else ""
            draft.objects.add(ObjectName(kind, name, schema))
            if key_at(tokens, place) != ",":
                return
            place += 1

    def add_mentioned_names(self, draft: Draft, tokens: Sequence[SqlToken]) -> None:
        """Add every dotted name, and each name after a word that precedes tables or schemas, anywhere in the statement.

        For statements without a tree. Some of the names are columns, so that a rule can match too much.
        """
        place = 0
        while place < len(tokens):
            parts, end = dotted_name(tokens, place)
            if not parts:
                place += 1
                continue
            before = key_at(tokens, place - 1)
            if before == "=":  # ALTER SESSION SET CURRENT_SCHEMA = hr
                before = key_at(tokens, place - 2)
            if len(parts) > 1:
                for at in filter(parts.__getitem__, range(1, len(parts))):
                    draft.objects.add(ObjectName(ObjectKind.TABLE, parts[at], parts[at - 1]))
            elif before in _OBJECTS_FOLLOW:
                self.add_names(draft, tokens, place)
            is_show = before in ("FROM", "IN") and key_at(tokens, 0) == "SHOW"  # tables from a schema
            if before in _SCHEMAS_FOLLOW or is_show or _is_all_of(tokens, end):
                draft.objects.add(ObjectName(ObjectKind.SCHEMA, parts[0]))
            place = end

    def add_names_in_strings(self, draft: Draft, tokens: Sequence[SqlToken]) -> None:
        """Add the names in strings, as procedures of the server take them: 'hr.salary'."""
        for token in tokens:
            if token.kind is not SqlTokenKind.STRING:
                continue
            parts = [part.strip(" _") for part in token.text.split(".")]  # quotes and brackets became `_`
            for at in range(len(parts)):
                draft.objects.add(ObjectName(ObjectKind.TABLE, parts[at], parts[at - 1] if at else ""))

    def _fold(self, token: SqlToken) -> str:
        if self.grammar.upper is None:
            return token.text.lower()
        return token.text.upper() if token.key else token.text


_OBJECTS_FOLLOW = frozenset({"TABLE", "ON", "FROM", "IN", "INTO", "FOR", "LIKE", "REFERENCES", "TRANSFER", "RENAME",
                             "IDENTITY_INSERT", "STATISTICS", "TABLES", "::"})  # fmt: skip
_SCHEMAS_FOLLOW = frozenset({"SCHEMA", "DATABASE", "USER", "CURRENT_SCHEMA", "::"})


def _is_all_of(tokens: Sequence[SqlToken], end: int) -> bool:
    """Return whether `.*` precedes this place."""
    return key_at(tokens, end) == "*" and key_at(tokens, end - 1) == "."


def by_first_words(
    tokens: Sequence[SqlToken], table: Mapping[tuple[str, ...], frozenset[Effect]]
) -> tuple[tuple[str, ...], frozenset[Effect]] | None:
    """Return the longest entry whose words the tokens start with."""
    for count in (4, 3, 2, 1):
        words = keys(tokens, count)
        if len(words) == count and words in table:
            return words, table[words]
    return None


def verb_of(tokens: Sequence[SqlToken]) -> str:
    """Return the keyword that determines the kind of a query: its first word, also in parentheses, or the one after its
    CTEs.
    """
    place = 0
    while key_at(tokens, place) == "(":
        place += 1
    if key_at(tokens, place) != "WITH":
        return key_at(tokens, place)
    while place < len(tokens):
        place += 1
        key = key_at(tokens, place)
        if key == "(":
            place = closing(tokens, place)
        elif key in ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "VALUES", "TABLE"):
            return key
    return "WITH"


_KINDS = {
    "TABLE": ObjectKind.TABLE,
    "VIEW": ObjectKind.TABLE,
    "SEQUENCE": ObjectKind.TABLE,
    "SYNONYM": ObjectKind.TABLE,
    "TABLES": ObjectKind.TABLE,
    "PROCEDURE": ObjectKind.FUNCTION,
    "PROC": ObjectKind.FUNCTION,
    "FUNCTION": ObjectKind.FUNCTION,
    "DATABASE": ObjectKind.SCHEMA,
    "SCHEMA": ObjectKind.SCHEMA,
}


def add_defined_object(judging: Judging, draft: Draft, tokens: Sequence[SqlToken]) -> str:
    """Add the object that CREATE, ALTER, DROP, TRUNCATE or RENAME names; return its kind, such as TABLE."""
    for place in range(1, min(len(tokens), 14)):
        key = tokens[place].key
        if key not in _KINDS:
            if key in ("(", "AS", "ON", "."):
                break
            continue
        place += 1
        while key_at(tokens, place) in ("IF", "NOT", "EXISTS", "BODY"):
            place += 1
        judging.add_names(draft, tokens, place, _KINDS[key])
        return key
    return key_at(tokens, 1)
