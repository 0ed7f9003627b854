"""Commands of the AWS CLI: `[aws] [dynamodb] put-item --table-name orders --item '{"id": {"S": "1"}}'`.

`dynamodbstreams` can be left out, too: no command is in both services. `--max-items` and `--page-size` are the limit of
operations that have one.
"""

from __future__ import annotations

from typing import Final

from postern.protocols.aws.commands.command_options import OptionReader, option_name
from postern.protocols.aws.commands.command_words import AwsCommandError, WordReader
from postern.protocols.aws.commands.operation_shapes import Parameters
from postern.protocols.dynamodb.dialect.dynamodb_json import DynamodbOperation
from postern.protocols.dynamodb.queries.dynamodb_shapes import SHAPES

_SERVICES: Final = ("dynamodb", "dynamodbstreams")
_PAGING: Final = ("--max-items", "--page-size")
_COMMANDS: Final = {option_name(name): name for name in SHAPES}


def read_command_line(reader: WordReader) -> tuple[DynamodbOperation, int]:
    """Parse one command. Return it with its end. Raises AwsCommandError."""
    words = reader.words()
    start, end = words[0].start, words[-1].end
    for prefixes in (("aws",), _SERVICES):
        if words and words[0].text in prefixes:
            words = words[1:]
    name = _COMMANDS.get(words[0].text) if words else None
    if name is None:
        shown = words[0].text[:64] if words else ""
        raise AwsCommandError(
            f"the command {shown!r} is not known; write an operation of DynamoDB, such as scan --table-name orders, "
            'JSON such as {"Scan": {"TableName": "orders"}}, or PartiQL',
            words[0].start if words else start,
        )
    options = OptionReader(words[1:])
    options.drop_client_options()
    options.take_flag("--no-paginate")
    return DynamodbOperation(name, _read_parameters(options, SHAPES[name])), end


def _read_parameters(options: OptionReader, shape: Parameters) -> dict[str, object]:
    limits: list[int] = []
    if "Limit" in shape:
        limits = [most for most in map(options.take_most, _PAGING) if most]
    place = options.place_of("--limit")
    parameters = options.read(shape)
    if len(limits) + ("Limit" in parameters) > 1:
        raise AwsCommandError("--limit, --max-items and --page-size are the same here; give one of them", place)
    return parameters | ({"Limit": limits[0]} if limits else {})
