"""Target schema for another process: pickled once, and unpickled there once."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from postern.domain.targets.target_schema import TargetSchema

_PACKED: Final = 16  # schemas whose pickled form is cached
_UNPACKED: Final = 16


@dataclass(frozen=True, slots=True)
class SchemaRef:
    """Pickled schema. Each snapshot has a new `key`, because findings are cached by the schema's identity."""

    key: str
    data: bytes

    def load(self) -> TargetSchema:
        """Return the same object for the same key."""
        schema = _unpacked.get(self.key)
        if schema is None:
            schema = pickle.loads(self.data)  # noqa: S301 - from this gateway's own process
            assert isinstance(schema, TargetSchema)
            _unpacked[self.key] = schema
            if len(_unpacked) > _UNPACKED:
                _unpacked.popitem(last=False)
        _unpacked.move_to_end(self.key)
        return schema


_unpacked: OrderedDict[str, TargetSchema] = OrderedDict()
_packed: OrderedDict[int, tuple[TargetSchema, SchemaRef]] = OrderedDict()


def pack_schema(schema: TargetSchema) -> SchemaRef:
    cached = _packed.get(id(schema))  # unique while the schema is referenced here
    if cached is None:
        cached = _packed[id(schema)] = (schema, SchemaRef(str(uuid4()), pickle.dumps(schema, pickle.HIGHEST_PROTOCOL)))
        if len(_packed) > _PACKED:
            _packed.popitem(last=False)
    _packed.move_to_end(id(schema))
    return cached[1]
