"""Judgement of one statement as a task for another process, with its arguments and result.

Compiled classes cannot be pickled, so findings travel as plain values.
"""

from __future__ import annotations

from typing import cast

from postern.domain.rules.guardrail import Action, Guardrail
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.guardrails.guardrail_findings import GuardrailFinding
from postern.inspection.guardrails.guardrail_rules import CompiledRules, judge_text, load
from postern.inspection.schema_ref import pack_schema
from postern.inspection.sql.sql_parser import Parser, SessionParser

_Answer = tuple[int, str, str, bool]  # the culprit's index, action, reason, unknown


class JudgeText:
    """Task that judges `text`. `names` is the session's parser, for a text that runs statements by name."""

    def __init__(
        self,
        rails: tuple[Guardrail, ...],
        parser: Parser | None,
        target: TargetSchema | None,
        text: str,
        names: SessionParser | None,
    ) -> None:
        self._rails = rails
        self._parser = parser
        self._schema = None if target is None else pack_schema(target)
        self._text = text
        self._names = names

    def __call__(self) -> _Answer | None:
        schema = None if self._schema is None else self._schema.load()
        rules = load(self._rails, self._parser, schema)
        finding = judge_text(rules, self._text, self._names)
        if finding is None:
            return None
        return rules.culprits.index(finding.culprit), finding.action.value, finding.reason, finding.unknown


def read_answer(rules: CompiledRules, answer: object) -> GuardrailFinding | None:
    """Return the finding, with the rules of this process."""
    if answer is None:
        return None
    place, action, reason, unknown = cast("_Answer", answer)
    return GuardrailFinding(rules.culprits[place], Action(action), reason, unknown)
