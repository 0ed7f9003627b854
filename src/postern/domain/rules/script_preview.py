"""Preview of a script: what its author would be told if it ran now."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

MAX_PREVIEW = 64 * 1024  # characters of a script
MAX_PREVIEWED = 200  # statements that are described


class PreviewOutcome(StrEnum):
    ALLOW = "allow"
    WARN = "warn"  # it runs, with warnings
    HOLD = "hold"  # it waits for reviewers once it has begun
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class PreviewMessage:
    """What the author is told. `rule` names the guardrail and its rule, or the check of the gateway."""

    rule: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of a text, with its messages: one unless it is allowed, or has several warnings. `held_by` are the
    groups whose members would decide on a held one."""

    outcome: PreviewOutcome
    messages: tuple[PreviewMessage, ...] = ()
    held_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """Why a script cannot be parsed, and where; `offset` counts characters from 0, and is None where it is unknown."""

    message: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class AnalysedPart:
    """A statement of a script and its place. `objects` are (kind, schema, name) as it writes them: what its views read
    is not shown, because its author may not be allowed to look that up. `reason` says why its effect is unknown."""

    start: int
    end: int
    tag: str
    effects: tuple[str, ...]
    objects: tuple[tuple[str, str, str], ...]
    without_where: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ScriptAnalysis:
    """The first parts of a script, whether there are more, and why it cannot be parsed."""

    parts: tuple[AnalysedPart, ...]
    truncated: bool
    problem: SyntaxProblem | None


@dataclass(frozen=True, slots=True)
class ScriptPreview:
    """The judgement of a whole script, which is what counts, and its parts with a judgement of each.

    Places are those of the script that the author wrote.
    """

    judgement: Judgement
    analysis: ScriptAnalysis
    of_parts: tuple[Judgement, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the preview as the API shows it."""
        problem = self.analysis.problem
        return {
            **asdict(self.judgement),
            "statements": [
                {**_part_as_json(part), **asdict(judgement)}
                for part, judgement in zip(self.analysis.parts, self.of_parts, strict=True)
            ],
            "statements_truncated": self.analysis.truncated,
            "syntax_error": None if problem is None else asdict(problem),
        }


def _part_as_json(part: AnalysedPart) -> dict[str, Any]:
    return {
        "offset": part.start,
        "length": part.end - part.start,
        "tag": part.tag,
        "effects": part.effects,
        "objects": [{"kind": kind, "schema": schema, "name": name} for kind, schema, name in part.objects],
        "without_where": part.without_where,
        "reason": part.reason,
    }
