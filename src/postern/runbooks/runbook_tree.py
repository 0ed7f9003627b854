"""What a template is once it is read. `at` is the offset of a node in the text."""

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
class Variable:
    """`$name`; the name is empty for `$`, the inputs."""

    at: int
    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """`.name` of a dot or a variable."""

    at: int
    name: str
    base: Dot | Variable


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments; what came through a pipe is the last of them.

    `subject` is the parameter that the pipeline begins with, through functions that only say something about it.
    """

    at: int
    name: str
    args: tuple[Expression, ...]
    depth: int = 1
    subject: Field | None = None


Expression: TypeAlias = Literal | Dot | Variable | Field | Call


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`names` are the variables that it declares, or changes where `assigns`."""

    at: int
    value: Expression
    names: tuple[str, ...] = ()
    assigns: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    at: int
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    at: int
    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Block:
    """`if`, `with` or `range`."""

    at: int
    keyword: str
    pipeline: Pipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Include:
    """`template "name" pipeline`."""

    at: int
    name: str
    pipeline: Pipeline | None


@dataclass(frozen=True, slots=True)
class Jump:
    """`break` or `continue`."""

    at: int
    keyword: str


Node: TypeAlias = Text | Action | Block | Include | Jump


@dataclass(frozen=True, slots=True)
class Tree:
    body: tuple[Node, ...]
    templates: dict[str, tuple[Node, ...]] = field(default_factory=dict)
