"""Syntax tree of a template. `at` is the offset of a node in the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Constant: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Literal:
    at: int
    value: Constant


@dataclass(frozen=True, slots=True)
class Dot:
    at: int


@dataclass(frozen=True, slots=True)
class VariableNode:
    """`$name`. The name is empty for `$`, the inputs."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class FieldNode:
    """`.name` of a dot or a variable."""

    at: int
    name: str
    base: Dot | VariableNode


@dataclass(frozen=True, slots=True)
class Call:
    """Function call. The value of a pipe is the last argument.

    `subject` is the parameter at the start of the pipeline, if only functions that describe it are in between.
    """

    at: int
    name: str
    args: tuple[Expression, ...]
    depth: int = 1
    subject: FieldNode | None = None


Expression: TypeAlias = Literal | Dot | VariableNode | FieldNode | Call


@dataclass(frozen=True, slots=True)
class TemplatePipeline:
    """Pipeline. `names` are the variables that it declares or, with `assigns`, changes."""

    at: int
    value: Expression
    names: tuple[str, ...] = ()
    assigns: bool = False


@dataclass(frozen=True, slots=True)
class TextNode:
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class TemplateAction:
    at: int
    pipeline: TemplatePipeline


@dataclass(frozen=True, slots=True)
class Block:
    """`if`, `with` or `range`."""

    at: int
    keyword: str
    pipeline: TemplatePipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Include:
    """`template "name" pipeline`."""

    at: int
    name: str
    pipeline: TemplatePipeline | None


@dataclass(frozen=True, slots=True)
class Jump:
    """`break` or `continue`."""

    at: int
    keyword: str


Node: TypeAlias = TextNode | TemplateAction | Block | Include | Jump


@dataclass(frozen=True, slots=True)
class Tree:
    body: tuple[Node, ...]
    templates: dict[str, tuple[Node, ...]] = field(default_factory=dict)
