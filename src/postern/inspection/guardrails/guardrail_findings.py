"""What a rule found, and what is kept of it."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from postern.domain.rules.guardrail import Action, GuardRail, Rule

CACHED_STATEMENTS = 1024
CACHED_STATEMENT_BYTES = 16 * 1024
CACHED_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Culprit:
    """The rule that hit: its guard rail's name, its own name or place, and what it says in the place of that."""

    rail: str
    rule: str
    message: str = ""

    @property
    def title(self) -> str:
        return f"{self.rail} / {self.rule}"

    @property
    def named(self) -> str:
        return f'guard rail "{self.rail}" (rule "{self.rule}")'


@dataclass(frozen=True, slots=True)
class GuardRailFinding:
    """`reason` says what was found, where more can be said than that the rule hit. `unknown`: it cannot be told
    whether it did."""

    culprit: Culprit
    action: Action
    reason: str = ""
    unknown: bool = False

    def said(self, beginning: str) -> str:
        """`beginning` says what is done about it. Names the rule whatever its author has to say."""
        why = f": {self.reason}" if self.reason else ""
        if self.culprit.message:
            return f"{self.culprit.message} [{self.culprit.title}{why}]"
        return f"{beginning} {self.culprit.named}{why}"


def named(rail: GuardRail, rules: tuple[Rule, ...]) -> list[tuple[Culprit, Rule]]:
    return [(Culprit(rail.name, rule.name or str(number), rule.message), rule) for number, rule in enumerate(rules, 1)]


class StatementCache:
    """What was found for the statements judged last. Bounded in number and in characters. Calls from several threads
    may lose an entry, never find a wrong one."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[GuardRailFinding | None]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, text: str) -> tuple[GuardRailFinding | None] | None:
        """What was found, or None where that is not known."""
        found = self._found.get(text)
        if found is not None:
            with suppress(KeyError):  # another thread dropped it meanwhile
                self._found.move_to_end(text)
        return found

    def put(self, text: str, finding: GuardRailFinding | None) -> None:
        if len(text) > CACHED_STATEMENT_BYTES:
            return
        if text not in self._found:
            self._size += len(text)
        self._found[text] = (finding,)
        while len(self._found) > CACHED_STATEMENTS or self._size > CACHED_BYTES:
            oldest, _ = self._found.popitem(last=False)
            self._size -= len(oldest)
