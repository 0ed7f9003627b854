"""Findings of guardrails, and their cache."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from postern.domain.rules.guardrail import Action, Guardrail, Rule

CACHED_STATEMENTS = 1024
CACHED_STATEMENT_BYTES = 16 * 1024
CACHED_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Culprit:
    """Rule that matched: its guardrail's name, its own name or number, and the message of its author."""

    rail: str
    rule: str
    message: str = ""

    @property
    def title(self) -> str:
        return f"{self.rail} / {self.rule}"

    @property
    def label(self) -> str:
        return f'guardrail "{self.rail}" (rule "{self.rule}")'


@dataclass(frozen=True, slots=True)
class GuardrailFinding:
    """Match of a rule. `reason` gives details, if there are any. `unknown`: it cannot be determined whether the rule
    matches.
    """

    culprit: Culprit
    action: Action
    reason: str = ""
    unknown: bool = False

    def describe(self, beginning: str) -> str:
        """Return the message to users. `beginning` states the action; the rule is always named, also after its author's
        message.
        """
        why = f": {self.reason}" if self.reason else ""
        if self.culprit.message:
            return f"{self.culprit.message} [{self.culprit.title}{why}]"
        return f"{beginning} {self.culprit.label}{why}"


def name_rules(rail: Guardrail, rules: tuple[Rule, ...]) -> list[tuple[Culprit, Rule]]:
    return [(Culprit(rail.name, rule.name or str(number), rule.message), rule) for number, rule in enumerate(rules, 1)]


class StatementCache:
    """Cached findings of recent statements, bounded in number and in characters.

    Calls from several threads can lose an entry, but never return a wrong one.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[GuardrailFinding | None]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, text: str) -> tuple[GuardrailFinding | None] | None:
        """Return the finding in a tuple, or None if the statement is not cached."""
        finding = self._found.get(text)
        if finding is not None and len(self._found) > CACHED_STATEMENTS // 2:
            with suppress(KeyError):  # another thread dropped it meanwhile
                self._found.move_to_end(text)
        return finding

    def put(self, text: str, finding: GuardrailFinding | None) -> None:
        if len(text) > CACHED_STATEMENT_BYTES:
            return
        if text not in self._found:
            self._size += len(text)
        self._found[text] = (finding,)
        while len(self._found) > CACHED_STATEMENTS or self._size > CACHED_BYTES:
            oldest, _ = self._found.popitem(last=False)
            self._size -= len(oldest)
