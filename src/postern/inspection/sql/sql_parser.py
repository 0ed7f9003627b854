"""The port of parsers."""

from __future__ import annotations

from typing import Final, Protocol

from postern.domain.rules.statement import Effect, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.sql_shapes import Shapes

NO_CATALOGUE: Final = (
    "the target's catalogue could not be read, so it is not known which tables its views read; "
    "the gateway's log says why"
)


class Parser(Protocol):
    @property
    def dialect(self) -> str:
        """Return the name of the dialect, as guardrails have it."""

    @property
    def shapes(self) -> Shapes | None:
        """Return what statements of this dialect have in common, None where nothing is known of that."""

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        """Each statement of the text, in order; empty for a text that holds none (blanks, comments). `schema` is what
        is known of the target's own views and functions. Never raises: what cannot be parsed is one statement of
        unknown effect. Pure; may take milliseconds for each 10 KB."""

    def __hash__(self) -> int:
        """What was judged by one parser is kept by it."""


class SessionParser(Protocol):
    """A parser for the statements of one session, some of which depend on those before them."""

    @property
    def weight(self) -> int:
        """How many characters of what has passed may have to be read for a text that executes something."""

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        """As `Parser.parse`, by what has passed."""

    def keeps(self, text: str) -> bool:
        """Whether texts that hold neither PREPARE nor EXECUTE matter to those after them, as this one does."""

    def meant(self, text: str, schema: TargetSchema | None = None) -> list[str]:
        """What this text executes by its names, each once; of a text that `parse` had before."""

    def missed(self) -> None:
        """There was something that this was not told of: from now on, what EXECUTE runs is not known."""

    def passed(self, text: str, *, by_protocol: bool = False) -> None:
        """This goes to the target; `by_protocol`: to be prepared there under a name that is not told."""


def unknown(reason: str, tag: str = "") -> Statement:
    return Statement(tag, frozenset({Effect.UNKNOWN}), reason=reason)
