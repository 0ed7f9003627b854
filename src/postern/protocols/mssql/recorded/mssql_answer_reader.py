"""Reading recorded bytes for rules about answers: the texts of each answer, and its number of rows."""

from __future__ import annotations

from postern.domain.rules.trial import Answered
from postern.protocols.mssql.recorded.mssql_recorded_stream import MssqlRecordedTokens
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_token_reader import ResultRow, Token
from postern.protocols.mssql.wire.mssql_values import plain


class MssqlAnswers:
    """Reader of answers: `feed` takes the recorded stream in chunks of any size. Rows are counted per statement."""

    def __init__(self) -> None:
        self._tokens = MssqlRecordedTokens()

    def feed(self, data: bytes) -> list[Answered]:
        """Return the answers that are complete now. Raises ProtocolViolation for bytes that are not packets."""
        return [answer for token in self._tokens.feed(data) if (answer := _answer(token)) is not None]


def _answer(token: Token) -> Answered | None:
    if isinstance(token, ResultRow):
        return Answered(tuple([text for text in token.texts() if text is not None]), rows=1)
    if isinstance(token, k.MessageToken):
        return Answered((b"%d" % token.number, token.text.encode("utf-8", "replace")))
    if isinstance(token, k.ReturnValue):
        return None if token.value is None else Answered((plain(token.type, token.value),))
    return Answered((), ends=True) if isinstance(token, k.DoneToken) else None
