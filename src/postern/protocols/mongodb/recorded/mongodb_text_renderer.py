"""Rendering recorded bytes as text: each document on a line, in relaxed Extended JSON."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from postern.protocols.mongodb.recorded.mongodb_cells import json_of
from postern.protocols.mongodb.recorded.mongodb_reading import ParsedReply, ReplyBatch, parse_reply
from postern.protocols.mongodb.recorded.mongodb_stream import MongodbReplies

_EMPTY = json_of(b"\x05\0\0\0\0")


class MongodbTextRenderer:
    """A `Renderer`: `feed` takes the recorded stream in chunks of any size and returns ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._replies = MongodbReplies()
        self._count = 0  # documents of the cursor that is read

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Return the pieces; adjacent ones of the same kind are joined. Raises ProtocolViolation for bytes that are not
        replies."""
        pieces = [piece for document in self._replies.feed(data) for piece in self._pieces(parse_reply(document))]
        return [(kind, b"".join(text for _, text in same)) for kind, same in groupby(pieces, itemgetter(0))]

    def rest(self) -> list[tuple[str, bytes]]:
        """Return a note about an incomplete reply, of which nothing can be rendered."""
        waiting = self._replies.waiting
        self._replies, self._count = MongodbReplies(), 0
        return [("o", b"[%d bytes of a reply]\n" % waiting)] if waiting else []

    def _pieces(self, reply: ParsedReply) -> list[tuple[str, bytes]]:
        pieces: list[tuple[str, bytes]] = []
        if reply.batch is not None:
            pieces += [("o", line.encode()) for line in self._lines(reply.batch)]
        elif reply.status and (not reply.failures or json_of(reply.status) != _EMPTY):
            pieces.append(("o", f"{status_line(reply.status)}\n".encode()))
        pieces += [("e", f"ERROR {failure.text}\n".encode("utf-8", "replace")) for failure in reply.failures]
        return pieces

    def _lines(self, batch: ReplyBatch) -> list[str]:
        texts = [json_of(document) for document in batch.documents]
        if batch.are_values:
            texts = [text[len('{"": ') : -1] for text in texts]
        self._count = (self._count if batch.continues else 0) + len(texts)
        lines = [f"{text}\n" for text in texts]
        if not batch.cursor:
            lines.append(f"{count_line(self._count, are_values=batch.are_values)}\n")
        return lines


def count_line(count: int, *, are_values: bool = False) -> str:
    """Return how many documents there were."""
    return f"{count} {'value' if are_values else 'document'}{'' if count == 1 else 's'}"


def status_line(status: bytes) -> str:
    """Return what a command reports besides documents."""
    text = json_of(status)
    return "ok" if text == _EMPTY else text
