"""Reading recorded bytes for rules about answers: the texts of each answer, and its number of documents."""

from __future__ import annotations

from postern.domain.rules.trial import Answered
from postern.protocols.mongodb.recorded.mongodb_cells import search_texts
from postern.protocols.mongodb.recorded.mongodb_reading import parse_reply
from postern.protocols.mongodb.recorded.mongodb_stream import MongodbReplies


class MongodbAnswers:
    """Reader of answers: `feed` takes the recorded stream in chunks of any size. Documents are counted per cursor."""

    def __init__(self) -> None:
        self._replies = MongodbReplies()

    def feed(self, data: bytes) -> list[Answered]:
        """Return the answers that are complete now. Raises ProtocolViolation for bytes that are not replies."""
        answers: list[Answered] = []
        for document in self._replies.feed(data):
            reply = parse_reply(document)
            if reply.batch is not None:
                answers += [Answered(search_texts(found), rows=1) for found in reply.batch.documents]
            texts = tuple(failure.message.encode() for failure in reply.failures)
            if texts or reply.batch is None or not reply.batch.cursor:
                answers.append(Answered(texts, ends=True))
        return answers
