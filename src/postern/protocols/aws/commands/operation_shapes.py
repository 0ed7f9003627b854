"""Tables of the parameters of operations with their types, as command lines need them. They are generated from the
models of botocore; tests compare both.

    GetItem TableName:s Key:m AttributesToGet:s* ConsistentRead:b

Types: s text, i whole number, d number, b truth value, t time, m object; with `*` a list of these.
"""

from __future__ import annotations

from collections.abc import Mapping

Parameters = Mapping[str, str]


def read_shapes(table: str) -> Mapping[str, Parameters]:
    """Return the parameters of each operation. A line that begins with blanks continues the one before."""
    operations: dict[str, dict[str, str]] = {}
    parameters: dict[str, str] = {}
    for line in table.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            parameters = operations[words.pop(0)] = {}
        parameters.update((name, kind) for name, _, kind in (word.partition(":") for word in words))
    return operations
