"""Splitting of a script into requests."""

from __future__ import annotations

from postern.domain.rules.script_preview import SyntaxProblem
from postern.inspection.sql.script_spans import ScriptSpans, whole
from postern.protocols.httpproxy.http_file import HttpFileError, read_requests


def split_requests(text: str) -> ScriptSpans:
    """Return the place of each request."""
    try:
        return ScriptSpans(tuple((request.start, request.end) for request in read_requests(text)))
    except HttpFileError as error:
        return ScriptSpans(whole(text), SyntaxProblem(error.reason, error.offset))
