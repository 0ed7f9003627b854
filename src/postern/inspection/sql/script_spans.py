"""Where the statements of a script begin and end, and where it cannot be parsed."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.rules.script_preview import SyntaxProblem


@dataclass(frozen=True, slots=True)
class ScriptSpans:
    """The statements' places, without blanks and comments around them. A script that cannot be parsed is one."""

    spans: tuple[tuple[int, int], ...]
    problem: SyntaxProblem | None = None


def whole(text: str) -> tuple[tuple[int, int], ...]:
    """Return the place of a text without the blanks around it; none for blanks alone."""
    stripped = text.strip()
    start = len(text) - len(text.lstrip())
    return ((start, start + len(stripped)),) if stripped else ()
