"""Reading recorded frames for rules about answers: the text of each response."""

from __future__ import annotations

from typing import Final

from postern.domain.rules.trial import Answered
from postern.protocols.http.recorded.recorded_responses import RecordedPart, RecordedResponses

_LONGEST: Final = 1 << 20  # bytes of a text; a longer body is several texts


class HttpAnswers:
    """Reader of answers: `feed` takes the recorded stream in chunks of any size."""

    def __init__(self) -> None:
        self._responses = RecordedResponses()

    def feed(self, data: bytes) -> list[Answered]:
        """Return the answers that are complete now. Raises ProtocolViolation for bytes that are no frames."""
        answers: list[Answered] = []
        for part in self._responses.feed(data):
            answer = self._read(part)
            if answer is not None:
                answers.append(answer)
        return answers

    def _read(self, part: RecordedPart) -> Answered | None:
        response = part.response
        if part.failure is not None:
            return Answered((part.failure.message.encode(),), ends=True)
        if part.begins and response.head is not None:
            return Answered(tuple(value for _, value in response.head.headers)) if response.head.headers else None
        if part.ends:
            texts = _take(response.parts)
            lost = part.text.decode().strip("[]") if part.text else ""
            return Answered(texts, ends=True) if not lost else Answered((), ends=True, lost=lost)
        response.parts.append(part.text)
        if sum(map(len, response.parts)) < _LONGEST:
            return None
        return Answered(_take(response.parts))


def _take(parts: list[bytes]) -> tuple[bytes, ...]:
    text = b"".join(parts)
    parts.clear()
    return (text,) if text else ()
