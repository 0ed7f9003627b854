"""Encoding of the gateway's own commands."""

from __future__ import annotations

import bson
from bson.errors import BSONError

from postern.protocols.mongodb.queries.mongodb_shell_commands import ShellCommand
from postern.protocols.mongodb.queries.mongodb_shell_options import Document
from postern.protocols.mongodb.wire.bson_json import write_json
from postern.protocols.mongodb.wire.mongodb_messages import MAX_MESSAGE, encode_message


def command_text(command: ShellCommand) -> str:
    """Return a command as the text of an operation."""
    return write_json(bson.encode(command.complete()))


def encode_command(request_id: int, document: Document) -> bytes:
    """Return the message of a command. Raises ValueError if it cannot be encoded."""
    try:
        message = encode_message(request_id, 0, bson.encode(document))
    except (BSONError, OverflowError, UnicodeEncodeError) as error:
        raise ValueError(f"the command cannot be encoded: {error}") from None
    if len(message) > MAX_MESSAGE:
        raise ValueError(f"the command is larger than {MAX_MESSAGE:,} bytes")
    return message
