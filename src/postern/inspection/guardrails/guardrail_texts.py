"""Text rules of guardrails: words and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.rules.masking import Strategy
from postern.domain.sessions.results import Mask
from postern.domain.text import one_line
from postern.inspection.guardrails.guardrail_findings import Culprit, GuardrailFinding
from postern.inspection.masked_cells import mark_cells
from postern.inspection.patterns import Lookup, readable, word_pattern
from postern.interception.events import Channel, Mark, Output, Rows, TextKind

# If several rules match, the most severe action counts, and among those the first rule.
SEVERITY: Final = (Action.DENY, Action.REVIEW, Action.WARN)

QUOTED: Final = 60  # characters

_STRUCTURED: Final = frozenset(b"{([<\"'")
_STRUCTURE: Final = frozenset(b"{}()[]<>,\"'\\")
_OF_LINES: Final = frozenset(b"\t\r\n\\,;|\"'")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z_-]+")


class RuleSet:
    """Rules of one direction and one action: a combined look-up for speed, and one per rule to find the culprit."""

    def __init__(self, rules: Iterable[tuple[Culprit, Rule]], action: Action) -> None:
        patterns_by_culprit = [(culprit, patterns_of(rule)) for culprit, rule in rules]
        self._action = action
        self._each = [(culprit, Lookup(patterns)) for culprit, patterns in patterns_by_culprit]
        self._all = Lookup([pattern for _, patterns in patterns_by_culprit for pattern in patterns])

    @property
    def first(self) -> Culprit:
        return self._each[0][0]

    @property
    def action(self) -> Action:
        return self._action

    def judge(self, texts: Sequence[bytes], *, quotes: bool = False) -> GuardrailFinding | None:
        """Return the finding of the first rule that matches, for the first text that matches, or None.

        `quotes` adds the matched text to the reason. Only the sender of a text gets it quoted.
        """
        index = self._all.first_hit(texts)
        if index is None:
            return None
        whole = readable(texts[index])
        culprit = self.culprit(whole)
        return GuardrailFinding(culprit, self._action, self._quote_match(culprit, whole) if quotes else "")

    def _quote_match(self, culprit: Culprit, text: bytes) -> str:
        spans = next(lookup.spans(text) for candidate, lookup in self._each if candidate is culprit)
        start, end = spans[0] if spans else (0, 0)
        quoted = one_line(text[start:end].decode("utf-8", "replace"))
        if not quoted:
            return ""
        return f'"{quoted}" matches it' if len(quoted) <= QUOTED else f'"{quoted[:QUOTED]}…" matches it'

    def culprit(self, text: bytes) -> Culprit:
        """Return the first rule that matches the text; one must."""
        return next(culprit for culprit, lookup in self._each if lookup.hits(text))

    def culprits(self, text: bytes) -> list[Culprit]:
        return [culprit for culprit, lookup in self._each if lookup.hits(text)]

    def spans(self, text: bytes) -> list[tuple[int, int]]:
        return self._all.spans(text)


def patterns_of(rule: Rule) -> list[str]:
    if rule.type is RuleType.DENY_WORDS_LIST:
        return [word_pattern(word, whole=rule.whole_words, case_sensitive=rule.case_sensitive) for word in rule.words]
    return [rule.pattern_regex]


def by_severity(rules: Sequence[tuple[Culprit, Rule]]) -> list[RuleSet]:
    """Return the sets of text rules, the most severe first."""
    sets: list[RuleSet] = []
    for action in SEVERITY:
        rule_set = of_text(rules, action)
        if rule_set is not None:
            sets.append(rule_set)
    return sets


def of_text(rules: Sequence[tuple[Culprit, Rule]], action: Action) -> RuleSet | None:
    types = (RuleType.DENY_WORDS_LIST, RuleType.PATTERN_MATCH)
    matching = [(culprit, rule) for culprit, rule in rules if rule.type in types and rule.action is action]
    return RuleSet(matching, action) if matching else None


class Masker:
    """Rules with the action `mask`: their matches become a constant that names the rule.

    If the constant would break its surroundings (a number, the quotes of an array, a delimiter of a copy), `mask_rows`
    and `mask_output` return the finding and change nothing.
    """

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self.size = 0  # bytes masked in the last event
        self.culprits: list[Culprit] = []  # rules that matched in the last event
        self.marks: list[Mark] = []  # … and what they masked
        self._masks: list[Mask] = []  # of the texts that `_mask_texts` has changed, in order

    @property
    def first(self) -> Culprit:
        return self._rules.first

    def hit_by(self, texts: Sequence[bytes]) -> Culprit | None:
        """Return the rule that would mask something in these texts."""
        finding = self._rules.judge(texts)
        return None if finding is None else finding.culprit

    def mask_rows(self, rows: Rows) -> GuardrailFinding | None:
        self._reset()
        masked: list[tuple[int, list[bytes], list[Mask]]] = []
        for index, column in enumerate(rows.columns):
            texts = rows.texts(index)
            if not texts or self._rules.judge(texts) is None:
                continue
            new = self._mask_texts(texts, column.kind, is_line=False)
            if isinstance(new, GuardrailFinding):
                return new
            masked.append((index, new, self._masks))
        for index, new, masks in masked:
            rows.replace(index, new)
            self.marks += mark_cells(rows, index, masks)
        return None

    def _reset(self) -> None:
        self.size = 0
        self.culprits = []
        self.marks = []

    def mask_output(self, output: Output, texts: list[bytes]) -> GuardrailFinding | None:
        self._reset()
        kind = TextKind.OPAQUE if output.channel is Channel.FUNCTION else output.text_kind
        displayed = output.rendered_texts()
        if displayed and self._rules.judge(displayed) is not None:
            new = self._mask_texts(displayed, TextKind.TEXT, is_line=False)
            if isinstance(new, GuardrailFinding):
                return new
            output.replace_rendered_texts(new)
            self._mark_output()
            texts = output.texts()
        if texts and self._rules.judge(texts) is not None:
            new = self._mask_texts(texts, kind, is_line=output.channel is Channel.COPY)
            if isinstance(new, GuardrailFinding):
                return new
            output.replace(new)
            self._mark_output()
        return None

    def _mark_output(self) -> None:
        for mask in dict.fromkeys(self._masks):
            self.marks.append(Mark(mask, count=self._masks.count(mask)))

    def _mask_texts(self, texts: list[bytes], kind: TextKind, *, is_line: bool) -> list[bytes] | GuardrailFinding:
        new: list[bytes] = []
        self._masks = []
        for text in texts:
            whole = readable(text)
            spans = self._rules.spans(whole)
            if not spans:
                new.append(text)
                continue
            culprit = self._rules.culprit(whole)
            mark = f"[masked:{_NOT_IN_NAMES.sub('-', culprit.rule)}]".encode()
            masked = self._mask_text(text, whole, spans, kind, mark, is_line=is_line)
            if masked is None:
                return GuardrailFinding(
                    culprit, Action.MASK, "its match cannot be masked here without breaking the answer"
                )
            new.append(masked)
            self._masks.append(Mask(culprit.title, Strategy.REPLACE.value))
            if culprit not in self.culprits:
                self.culprits.append(culprit)
        return new

    def _mask_text(
        self, text: bytes, whole: bytes, spans: list[tuple[int, int]], kind: TextKind, mark: bytes, *, is_line: bool
    ) -> bytes | None:
        if kind is TextKind.JSON:
            around = _strings_around(whole, spans)
            if around is None or text is not whole:
                return None
            spans, mark = around, b'"' + mark + b'"'
        elif kind is not TextKind.TEXT:
            return None
        elif text is not whole:  # unknown encoding: mask all of it, which leaves ASCII
            if is_line:
                return None
            spans = [(0, len(whole))]
        elif is_line or (whole and whole[0] in _STRUCTURED):
            breaking = _OF_LINES if is_line else _STRUCTURE
            if any(not breaking.isdisjoint(whole[start:end]) for start, end in spans):
                return None
        self.size += sum([end - start for start, end in spans])
        return _with_mark(whole, spans, mark)


def _strings_around(document: bytes, spans: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Return the strings of a JSON document that contain these spans; None if a span is not inside a string."""
    enclosing: list[tuple[int, int]] = []
    strings = (match.span() for match in _STRING.finditer(document))
    current = next(strings, None)
    for start, end in spans:  # both are sorted, so one pass is enough
        while current is not None and current[1] < end:
            current = next(strings, None)
        if current is None or start < current[0]:
            return None
        if not enclosing or enclosing[-1] != current:
            enclosing.append(current)
    return enclosing


def _with_mark(text: bytes, spans: list[tuple[int, int]], mark: bytes) -> bytes:
    out: list[bytes] = []
    done = 0
    for start, end in spans:
        out.append(text[done:start])
        out.append(mark)
        done = end
    out.append(text[done:])
    return b"".join(out)
