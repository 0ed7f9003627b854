"""Runbook as a template: the parameters that it takes, and the script that it renders.

`docs/how-to/write-runbooks.md` describes the language to authors, and `runbook_parser.py` contains its grammar.
Parameters are found in the tree, in every branch, before any value is known. A parameter can be used in several places,
and each can declare something about it. The declarations are merged; if two contradict each other, the later one
counts. `required` counts only outside of blocks; within a block it is checked when the block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from postern.domain.runbook import Parameter
from postern.domain.text import one_line
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.evaluator import TemplateEvaluator
from postern.runbooks.inputs import problem_of
from postern.runbooks.quoting import syntax_of
from postern.runbooks.runbook_parser import read
from postern.runbooks.runbook_signatures import literal_text
from postern.runbooks.runbook_tree import (
    Block,
    Call,
    Dot,
    Expression,
    FieldNode,
    Include,
    Literal,
    Node,
    TemplateAction,
    TemplatePipeline,
    Tree,
    VariableNode,
)
from postern.runbooks.step_budget import StepBudget
from postern.runbooks.template_errors import Fault, RenderError, TemplateError, position_of

MAX_PARAMETERS = 200
MAX_NAME = 128  # characters
MAX_VISITS = 50_000
_STRICT = frozenset({"number", "date", "time", "datetime-local"})  # their values have no special meaning anywhere
# Their results contain nothing of their arguments, or nothing with a special meaning in a script.
_SAFE = frozenset(
    {"squote", "dquote", "quotechar", "asenv", "encodeb64", "urlquery", "len", "not"}
    | {"eq", "ne", "lt", "le", "gt", "ge"}
)


@dataclass(frozen=True, slots=True)
class ValueMark:
    """Facts about a value before there is one: whether it is all inputs, and which inputs' texts it contains."""

    is_root: bool = False
    names: frozenset[str] = frozenset()


_NOTHING = ValueMark()
_ROOT = ValueMark(is_root=True)


@dataclass(slots=True)
class VariableFacts:
    """Variable. Nested blocks see and change the same one."""

    mark: ValueMark


@dataclass(slots=True)
class ParameterSurvey:
    """Survey of a template's parameters.

    - `own_defaults`: defaults of single places, by their offset.
    - `raw`: parameters whose text gets into the script without quotes.
    - `messages`: messages of `required`.
    """

    tree: Tree
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    own_defaults: dict[int, str] = field(default_factory=dict)
    raw: set[str] = field(default_factory=set)
    messages: dict[str, str] = field(default_factory=dict)
    _exported: dict[str, str] = field(default_factory=dict)
    _seen: set[tuple[str, ValueMark, bool]] = field(default_factory=set)
    _visits: int = 0

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters by `order`, then by first use. Raises Fault."""
        self._walk(self.tree.body, _ROOT, {"": VariableFacts(_ROOT)}, False)
        parameters = [Parameter(name=name, **says) for name, says in self.facts.items()]
        parameters = [
            replace(parameter, type="select") if parameter.options and parameter.type == "text" else parameter
            for parameter in parameters
        ]
        return tuple(sorted(parameters, key=lambda parameter: (parameter.order is None, parameter.order or 0)))

    def find_unquoted(self, parameters: tuple[Parameter, ...]) -> tuple[str, ...]:
        return tuple(p.name for p in parameters if p.name in self.raw and p.type not in _STRICT and not p.options)

    def _walk(self, nodes: tuple[Node, ...], dot: ValueMark, variables: dict[str, VariableFacts], inside: bool) -> None:
        variables = dict(variables)
        for node in nodes:
            self._visit(node.at)
            if isinstance(node, TemplateAction):
                mark = self._pipeline(node.pipeline, dot, variables, inside)
                if not node.pipeline.names:
                    self.raw |= mark.names
            elif isinstance(node, Block):
                self._block(node, dot, variables, inside)
            elif isinstance(node, Include):
                self._include(node, dot, variables, inside)

    def _block(self, node: Block, dot: ValueMark, variables: dict[str, VariableFacts], inside: bool) -> None:
        within = dict(variables)
        mark = self._pipeline(node.pipeline, dot, within, inside)
        if node.keyword == "range" and mark.is_root:
            raise Fault("range takes a number or the pieces of split, not the inputs", node.at)
        self._walk(node.body, dot if node.keyword == "if" else mark, within, True)
        self._walk(node.otherwise, dot, within, True)

    def _include(self, node: Include, dot: ValueMark, variables: dict[str, VariableFacts], inside: bool) -> None:
        mark = _NOTHING if node.pipeline is None else self._pipeline(node.pipeline, dot, variables, inside)
        body = self.tree.templates.get(node.name)
        if body is None:
            raise Fault(f"the template {node.name!r} does not exist", node.at)
        if (node.name, mark, inside) not in self._seen:
            self._seen.add((node.name, mark, inside))
            self._walk(body, mark, {"": VariableFacts(mark)}, inside)

    def _pipeline(
        self, pipeline: TemplatePipeline, dot: ValueMark, variables: dict[str, VariableFacts], inside: bool
    ) -> ValueMark:
        mark = self._mark(pipeline.value, dot, variables, inside)
        for name in pipeline.names:
            if pipeline.assigns and name in variables:
                variables[name].mark = ValueMark(mark.is_root, mark.names | variables[name].mark.names)
            else:
                variables[name] = VariableFacts(mark)
        return mark

    def _mark(self, node: Expression, dot: ValueMark, variables: dict[str, VariableFacts], inside: bool) -> ValueMark:
        self._visit(node.at)
        if isinstance(node, Literal):
            return _NOTHING
        if isinstance(node, Dot):
            return dot
        if isinstance(node, VariableNode):
            return variables[node.name].mark if node.name in variables else _NOTHING
        if isinstance(node, FieldNode):
            return self._input(node.name, self._mark(node.base, dot, variables, inside), node.at)
        marks = [
            self._mark(argument, dot, variables, inside or (number > 0 and node.name in ("and", "or")))
            for number, argument in enumerate(node.args)
        ]
        if node.name == "index" and marks[0].is_root:
            key = node.args[1]
            if not isinstance(key, Literal) or not isinstance(key.value, str):
                raise Fault("index takes the name of an input as a literal of the runbook", node.at)
            return self._input(key.value, marks[0], node.at)
        if node.subject is not None:
            self._note(node, self.facts[node.subject.name], node.subject, inside)
        if node.name in _SAFE:
            return _NOTHING
        return ValueMark(names=frozenset().union(*(mark.names for mark in marks)))

    def _input(self, name: str, base: ValueMark, at: int) -> ValueMark:
        if not base.is_root:
            raise Fault(f"a text has no fields: within range, with and template, write the input as $.{name}", at)
        if name not in self.facts:
            if len(self.facts) >= MAX_PARAMETERS:
                raise Fault(f"a runbook has at most {MAX_PARAMETERS} parameters", at)
            if not name or not name.isprintable():
                raise Fault("the name of a parameter must be one line of printable characters", at)
            if len(name) > MAX_NAME:
                raise Fault(f"the name of a parameter has at most {MAX_NAME} characters", at)
            self.facts[name] = {}
        return ValueMark(names=frozenset({name}))

    def _note(self, call: Call, says: dict[str, Any], subject: FieldNode, inside: bool) -> None:
        first = literal_text(call.args[0]) if isinstance(call.args[0], Literal) else ""
        if call.name == "required" and not inside:
            says["required"] = True
            self.messages[subject.name] = first
        elif call.name == "default":
            self.own_defaults.setdefault(subject.at, first)
            if isinstance(call.args[0], Literal):
                says["default"] = first
        elif call.name == "options":
            says["options"] = tuple(literal_text(arg) for arg in call.args[:-1])
        elif call.name == "asenv":
            if self._exported.setdefault(first, subject.name) != subject.name:
                raise Fault(f"two parameters use the environment variable {first}", call.at)
            says["asenv"] = first
        elif call.name in _READ:
            says[call.name] = _READ[call.name](first)

    def _visit(self, at: int) -> None:
        self._visits += 1
        if self._visits > MAX_VISITS:
            raise Fault("the runbook includes its templates too many times", at)


_READ: dict[str, Callable[[str], str | int]] = {
    "type": str,
    "description": str,
    "placeholder": str,
    "pattern": str,
    "minlength": int,
    "maxlength": int,
    "order": int,
}


__all__ = ["RenderError", "Rendered", "Template", "TemplateError", "parse", "syntax_of"]

MAX_TEXT = 1_000_000  # characters of a runbook
MAX_VALUE = 1_000_000  # characters of one value
MASK = "***"
MAX_SHOWN = 100  # unknown names, and characters of each


@dataclass(frozen=True, slots=True)
class Rendered:
    """Rendered runbook: the script, and its environment variables by name. Both can contain secrets."""

    text: str = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """Parsed runbook. `parameters` are in the order of a form.

    `unquoted` are the names of those that get into the script unquoted, and whose type allows any text.
    """

    parameters: tuple[Parameter, ...]
    unquoted: tuple[str, ...]
    _text: str = field(repr=False)
    _tree: Tree = field(repr=False)
    _survey: ParameterSurvey = field(repr=False)

    def render(
        self,
        values: Mapping[str, str],
        syntax: ScriptSyntax,
        *,
        masked: bool = False,
        rest: Callable[[], None] | None = None,
    ) -> Rendered:
        """Render the script. A missing input is empty, unless the runbook has a default or requires one.

        `masked`: all inputs are checked, but hidden parameters become `***` in the result, which is for display. `rest`
        is called at intervals, to yield to other work; an exception in it stops the rendering. Raises RenderError,
        which names all missing, unknown and wrong inputs at once.
        """
        inputs = self._check_values(values)
        budget = StepBudget(rest)
        rendered = self._run(inputs, syntax, budget, is_shown=False)
        hidden = {parameter.name for parameter in self.parameters if parameter.is_hidden and inputs[parameter.name]}
        if not masked or not hidden:
            return rendered
        masked_inputs = {name: MASK if name in hidden else inputs[name] for name in inputs}
        return self._run(masked_inputs, syntax, budget, is_shown=True)

    def _run(self, inputs: Mapping[str, str], syntax: ScriptSyntax, budget: StepBudget, *, is_shown: bool) -> Rendered:
        defaults = {parameter.name: parameter.default for parameter in self.parameters if parameter.default}
        machine = TemplateEvaluator(self._tree, inputs, defaults, self._survey.own_defaults, syntax, budget, is_shown)
        try:
            return Rendered(machine.run(), machine.environment)
        except Fault as fault:
            raise self._render_error(fault) from None
        except RecursionError:
            raise RenderError("the runbook's blocks and calls are nested too deeply") from None

    def _check_values(self, values: Mapping[str, str]) -> dict[str, str]:
        names = [parameter.name for parameter in self.parameters]
        unknown = sorted(str(name) for name in values.keys() - set(names))
        if unknown:
            message = ", ".join(one_line(name[:MAX_SHOWN]) for name in unknown[:MAX_SHOWN])
            listing = f"it has [{', '.join(names)}]" if names else "it has none"
            raise RenderError(f"the runbook has no inputs [{message}]; {listing}", parameters=tuple(unknown))
        inputs = {name: values.get(name, "") for name in names}
        missing = [
            parameter.name
            for parameter in self.parameters
            if parameter.required and not inputs[parameter.name] and not parameter.default
        ]
        if missing:
            messages = [f"{name}: {text}" for name in missing if (text := self._survey.messages.get(name))]
            message = f"the following inputs are missing [{', '.join(missing)}]; give each a value"
            raise RenderError("; ".join([message, *messages]), parameters=tuple(missing))
        wrong = {
            parameter.name: why for parameter in self.parameters if (why := _problem(parameter, inputs[parameter.name]))
        }
        if wrong:
            message = "; ".join(f"input {name} {why}" for name, why in wrong.items())
            raise RenderError(message, parameters=tuple(wrong))
        return inputs

    def _render_error(self, fault: Fault) -> RenderError:
        about = ", ".join(fault.parameters)
        message = f"input {about}: {fault.message}" if about else fault.message
        line, column = (0, 0) if fault.at is None else position_of(self._text, fault.at)
        return RenderError(message, line, column, fault.parameters)


def parse(text: str) -> Template:
    """Parse a runbook. Raises TemplateError."""
    try:
        if len(text) > MAX_TEXT:
            raise Fault(f"a runbook has at most {MAX_TEXT:,} characters", 0)
        if not _is_text(text):
            raise Fault("the runbook contains characters that are not valid text", 0)
        tree = read(text)
        survey = ParameterSurvey(tree)
        parameters = survey.parameters()
    except Fault as fault:
        raise TemplateError(fault.message, *position_of(text, fault.at or 0)) from None
    except RecursionError:
        raise TemplateError("blocks and calls are nested too deeply", 1, 1) from None
    return Template(parameters, survey.find_unquoted(parameters), text, tree, survey)


def _problem(parameter: Parameter, value: str) -> str:
    if not isinstance(value, str):
        return "must be a text"
    if len(value) > MAX_VALUE:
        return f"must have at most {MAX_VALUE:,} characters"
    if "\0" in value or not _is_text(value):
        return "must be a text without NUL and lone surrogates"
    return problem_of(parameter, value)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
