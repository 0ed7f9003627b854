"""Facts about responses that follow from the requests, besides lineage."""

from __future__ import annotations

from postern.inspection.masking.statement_facts import StatementFacts


class HttpproxyStatementFacts(StatementFacts):
    def help_with_origins(self) -> str:
        return "Request JSON, at a path without dots and escapes: the rule names fields, which no other content has"
