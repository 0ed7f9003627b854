"""Reading recorded bytes for rules about answers: the texts of each answer, and its number of rows."""

from __future__ import annotations

from postern.domain.rules.trial import Answered
from postern.protocols.cloudwatch.queries.cloudwatch_messages import ResponseFrames
from postern.protocols.cloudwatch.recorded.cloudwatch_reading import read_recorded, texts_in


class CloudwatchAnswers:
    """Reader of answers: `feed` takes the recorded stream in chunks of any size."""

    def __init__(self) -> None:
        self._responses = ResponseFrames(is_eager=True)

    def feed(self, data: bytes) -> list[Answered]:
        """Return the answers that are complete now. Raises ProtocolViolation for bytes that are not frames."""
        answers: list[Answered] = []
        for response in self._responses.feed(data):
            answer = read_recorded(response)
            if answer.error is not None:
                answers.append(Answered((answer.error.message.encode("utf-8", "replace"),), ends=True))
                continue
            answers += [Answered(tuple(texts_in(row)), rows=1) for row in answer.rows]
            if not answer.is_part:
                answers.append(Answered(tuple(texts_in(answer.details)), ends=True))
        return answers
