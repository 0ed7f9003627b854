"""The counted results of a parser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.bypass.cases import Case, Ordinary, Truth, effects_of, judged_rightly, lets_through

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.sql_parser import Parser


@dataclass
class Tally:
    """The counts of one group: `stopped` of `attacks` were denied, `passed` of `harmless` passed, and `exact` of
    both were judged with exactly their effects."""

    attacks: int = 0
    stopped: int = 0
    harmless: int = 0
    passed: int = 0
    exact: int = 0


@dataclass
class Score:
    dialect: str
    groups: dict[str, Tally] = field(default_factory=dict)
    got_through: list[Case] = field(default_factory=list)
    stopped_for_nothing: list[Case] = field(default_factory=list)
    inexact: list[Case] = field(default_factory=list)
    ordinary: int = 0
    alarms: list[Ordinary] = field(default_factory=list)
    inexact_ordinary: list[Ordinary] = field(default_factory=list)

    @property
    def total(self) -> Tally:
        whole = Tally()
        for tally in self.groups.values():
            for name in vars(whole):
                setattr(whole, name, getattr(whole, name) + getattr(tally, name))
        return whole

    def table(self) -> str:
        """Return a table for users: a line for each group, then the failures."""
        lines = [f"{self.dialect:<34}{'attacks stopped':>18}{'harmless passed':>18}{'exact effects':>16}"]
        for name, tally in [*sorted(self.groups.items()), ("all of them", self.total)]:
            cases = tally.attacks + tally.harmless
            lines.append(
                f"{name:<34}{_of(tally.stopped, tally.attacks):>18}{_of(tally.passed, tally.harmless):>18}"
                f"{_of(tally.exact, cases):>16}"
            )
        lines.append(f"{'ordinary statements':<34}{'':>18}{_of(self.ordinary - len(self.alarms), self.ordinary):>18}"
                     f"{_of(self.ordinary - len(self.inexact_ordinary), self.ordinary):>16}")  # fmt: skip
        lines += [f"  GOT THROUGH  {case.name}: {case.text[:100]!r}" for case in self.got_through]
        lines += [f"  stopped for nothing  {case.name}: {case.text[:100]!r}" for case in self.stopped_for_nothing]
        lines += [f"  not exact  {case.name}: {case.text[:100]!r}" for case in self.inexact]
        lines += [f"  false alarm  {one.source}: {one.text[:100]!r}" for one in self.alarms]
        others = [one for one in self.inexact_ordinary if one not in self.alarms]
        lines += [f"  not exact  {one.source}: {one.text[:100]!r}" for one in others]
        return "\n".join(lines)


def score(
    parser: Parser, cases: Iterable[Case], ordinary: Iterable[Ordinary], schema: TargetSchema | None = None
) -> Score:
    result = Score(parser.dialect)
    for case in cases:
        if case.truth is Truth.REJECTED:
            parser.parse(case.text, schema)  # it must not raise
            continue
        statements = parser.parse(case.text, schema)
        tally = result.groups.setdefault(case.group, Tally())
        through, right = lets_through(statements), judged_rightly(case, statements)
        if case.truth is Truth.HARMLESS:
            tally.harmless += 1
            tally.passed += through
            if not through:
                result.stopped_for_nothing.append(case)
        else:
            tally.attacks += 1
            tally.stopped += not through
            if through:
                result.got_through.append(case)
        tally.exact += right
        if not right:
            result.inexact.append(case)
    for one in ordinary:
        result.ordinary += 1
        found = effects_of(parser.parse(one.text, schema))
        if Effect.UNKNOWN in found:
            result.alarms.append(one)
        if found != one.effects:
            result.inexact_ordinary.append(one)
    return result


def _of(some: int, all_of_them: int) -> str:
    return f"{some} of {all_of_them}" if all_of_them else "-"
