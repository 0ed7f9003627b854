"""The models of AWS's services, as the tables of command lines have them."""

from __future__ import annotations

import botocore.session
from botocore.model import Shape

_TYPES = {
    "string": "s",
    "blob": "s",
    "integer": "i",
    "long": "i",
    "double": "d",
    "boolean": "b",
    "timestamp": "t",
}


def model_shapes(service: str) -> dict[str, dict[str, str]]:
    """Return the types of parameters by operation."""
    model = botocore.session.get_session().get_service_model(service)
    shapes = {name: model.operation_model(name).input_shape for name in model.operation_names}
    return {
        name: {} if shape is None else {member: _type(inner) for member, inner in shape.members.items()}
        for name, shape in shapes.items()
    }


def _type(shape: Shape) -> str:
    if shape.type_name == "list":
        return f"{_type(shape.member)[0]}*"
    return _TYPES.get(shape.type_name, "m")
