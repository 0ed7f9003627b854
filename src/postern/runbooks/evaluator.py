"""Evaluator of templates. It knows nodes, values and a table of functions, and nothing of Python.

A template can therefore not reach anything else. Every loop, call and text counts against a budget, because the text of
a runbook is not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.formatting import format_value, kind_of
from postern.runbooks.functions import FUNCTIONS, is_true, text_of
from postern.runbooks.inputs import compile_pattern, problem
from postern.runbooks.quoting import quote_value
from postern.runbooks.runbook_signatures import literal_text
from postern.runbooks.runbook_tree import (
    Block,
    Call,
    Dot,
    Expression,
    FieldNode,
    Include,
    Jump,
    Literal,
    Node,
    TemplateAction,
    TemplatePipeline,
    TextNode,
    Tree,
    VariableNode,
)
from postern.runbooks.step_budget import StepBudget
from postern.runbooks.template_errors import Fault
from postern.runbooks.template_places import TemplatePlaces
from postern.runbooks.values import Inputs, Quoted, Value, bare, parts_of, quoted_text

MAX_OUTPUT = 1_000_000  # bytes of the script
MAX_STEPS = 200_000  # evaluated nodes
MAX_WORK = 10_000_000  # characters that functions read and write
_LONG = 10_000  # characters of a text that justify a look at the clock
MAX_DEPTH = 60  # nested blocks and templates
MAX_ENVIRONMENT = 100_000  # bytes of one variable: Linux's limit, with room for its name

_INPUTS = Inputs()
_CHECKS = frozenset({"type", "options", "minlength", "maxlength"})
_QUOTES = {"squote": "'", "dquote": '"'}


@dataclass(slots=True)
class TemplateEvaluator:
    """One rendering. Raises Fault.

    - `values`: every parameter's value, as it was given, or empty.
    - `defaults`: defaults of parameters.
    - `own_defaults`: defaults of single places, by their offset.
    - `is_shown`: the result is only displayed and never runs. Its values were checked before some were replaced, so
      that nothing is checked again.
    """

    tree: Tree
    values: Mapping[str, str]
    defaults: Mapping[str, str]
    own_defaults: Mapping[int, str]
    syntax: ScriptSyntax
    budget: StepBudget
    is_shown: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    size: int = 0
    steps: int = 0
    work: int = 0
    depth: int = 0
    variables: list[tuple[str, Value]] = field(default_factory=lambda: [("", _INPUTS)])
    out: list[str] = field(default_factory=list)
    places: TemplatePlaces = field(init=False)

    def __post_init__(self) -> None:
        self.places = TemplatePlaces(self.syntax, self.budget, is_shown=self.is_shown)

    def run(self) -> str:
        self._walk(self.tree.body, _INPUTS)
        self.places.end()
        text = "".join(self.out)
        if "\0" in text:
            raise Fault("the script would contain a NUL character, at which programs and databases end it")
        return text

    # Blocks

    def _walk(self, nodes: tuple[Node, ...], dot: Value) -> str:
        """Run nodes; return the jump that ended them: "break", "continue" or nothing."""
        if not nodes:
            return ""
        scope_size = len(self.variables)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Fault(f"more than {MAX_DEPTH} blocks and templates are nested", nodes[0].at)
        for node in nodes:
            self._step(node.at)
            jump = self._run(node, dot)
            if jump:
                break
        else:
            jump = ""
        self.depth -= 1
        del self.variables[scope_size:]
        return jump

    def _run(self, node: Node, dot: Value) -> str:
        if isinstance(node, TextNode):
            self._emit_raw(node.text)
        elif isinstance(node, TemplateAction):
            value = self._pipeline(node.pipeline, dot)
            if not node.pipeline.names:
                self._emit(value, node.pipeline)
        elif isinstance(node, Jump):
            return node.keyword
        elif isinstance(node, Include):
            self._include(node, dot)
        elif node.keyword == "range":
            return self._range(node, dot)
        else:
            return self._if_or_with(node, dot)
        return ""

    def _if_or_with(self, node: Block, dot: Value) -> str:
        scope_size = len(self.variables)
        value = self._pipeline(node.pipeline, dot)
        if is_true(value):
            jump = self._walk(node.body, value if node.keyword == "with" else dot)
        else:
            jump = self._walk(node.otherwise, dot)
        del self.variables[scope_size:]
        return jump

    def _range(self, node: Block, dot: Value) -> str:
        scope_size = len(self.variables)
        names = node.pipeline.names
        over = self._value(node.pipeline.value, dot)
        if isinstance(over, int) and not isinstance(over, bool):
            items: Sequence[Value] = range(max(over, 0))
        elif isinstance(over, list):
            items = over
        else:
            raise Fault(f"range takes a number or the pieces of split, not {kind_of(over)}", node.at)
        jump = ""
        for number, item in enumerate(items):
            self._step(node.at)
            item_values: tuple[Value, ...] = (number, item) if len(names) == 2 else (item,)
            for name, value in zip(names, item_values, strict=False):
                self._set(name, value, node.pipeline)
            jump = self._walk(node.body, item)
            if not node.pipeline.assigns:
                del self.variables[scope_size:]
            if jump == "break":
                break
        else:
            if not items:
                return self._walk(node.otherwise, dot)
        return ""

    def _include(self, node: Include, dot: Value) -> None:
        argument = None if node.pipeline is None else self._pipeline(node.pipeline, dot)
        outer, self.variables = self.variables, [("", argument)]
        self._walk(self.tree.templates[node.name], argument)
        self.variables = outer

    def _pipeline(self, pipeline: TemplatePipeline, dot: Value) -> Value:
        value = self._value(pipeline.value, dot)
        for name in pipeline.names:
            self._set(name, value, pipeline)
        return value

    def _set(self, name: str, value: Value, pipeline: TemplatePipeline) -> None:
        if not pipeline.assigns:
            self.variables.append((name, value))
            return
        self.variables[self._place_of(name, pipeline.at)] = (name, value)

    def _place_of(self, name: str, at: int) -> int:
        for number in range(len(self.variables) - 1, -1, -1):
            if self.variables[number][0] == name:
                return number
        raise Fault(f"the variable ${name} is not defined here", at)

    # Expressions

    def _value(self, node: Expression, dot: Value) -> Value:
        self._step(node.at)
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Dot):
            return dot
        if isinstance(node, VariableNode):
            return self.variables[self._place_of(node.name, node.at)][1]
        if isinstance(node, FieldNode):
            return self._input(node, self._value(node.base, dot))
        try:
            return self._call(node, dot)
        except Fault as fault:
            fault.at = node.at if fault.at is None else fault.at
            fault.parameters = fault.parameters or tuple(dict.fromkeys(mentioned_inputs(node)))
            raise

    def _input(self, node: FieldNode, base: Value) -> str:
        if not isinstance(base, Inputs):
            raise Fault(f"{kind_of(base)} has no fields; use $.{node.name} for an input here", node.at)
        return self.values[node.name] or self.own_defaults.get(node.at, self.defaults.get(node.name, ""))

    def _call(self, node: Call, dot: Value) -> Value:
        if node.name in ("and", "or"):
            value: Value = None
            for argument in node.args:
                value = self._value(argument, dot)
                if is_true(value) == (node.name == "or"):
                    break
            return value
        values = [self._value(argument, dot) for argument in node.args]
        if node.name == "index" and isinstance(values[0], Inputs) and isinstance(values[1], str):
            return self.values[values[1]] or self.defaults.get(values[1], "")
        self._charge(values, node.at)
        try:
            result = FUNCTIONS[node.name](values) if node.name in FUNCTIONS else self._apply(node, values)
        except Fault:
            if not self.is_shown:
                raise
            result = values[-1]
        self._charge([result], node.at)
        return result

    def _apply(self, node: Call, values: list[Value]) -> Value:
        """Call a function that needs the rendering, or the parameter that it describes."""
        name, value = node.name, values[-1]
        if name == "required":
            if not is_true(value):
                raise Fault(text_of(values[0], name))
        elif name == "default":
            return value if is_true(value) else values[0] if isinstance(values[0], str) else format_value(values[0])
        elif name == "pattern":
            if not compile_pattern(text_of(values[0], name), node.at).search(bare(text_of(value, name)).encode()):
                raise Fault(f"must match the pattern {values[0]}")
        elif name in _CHECKS:
            if node.subject is None:
                self._check(node, text_of(value, name))
        elif name == "asenv":
            return self._export(text_of(values[0], name), text_of(value, name))
        elif name in ("squote", "dquote", "quotechar"):
            quote = _QUOTES.get(name) or text_of(values[0], name)
            text = value if isinstance(value, str) else format_value(value)
            return quoted_text(quote_value(self.syntax, quote, text), text, quote)
        return value

    def _check(self, node: Call, text: str) -> None:
        words = tuple(literal_text(literal) for literal in node.args[:-1])
        kind = words[0] if node.name == "type" else "textarea"
        least = int(words[0]) if node.name == "minlength" else None
        most = int(words[0]) if node.name == "maxlength" else None
        wrong = problem(bare(text), kind, words if node.name == "options" else (), least, most)
        if wrong:
            raise Fault(wrong)

    def _export(self, name: str, value: str) -> str:
        if len(value.encode()) > MAX_ENVIRONMENT:
            raise Fault(f"an environment variable has at most {MAX_ENVIRONMENT:,} bytes")
        self.environment[name] = value
        return ""

    # Output and budgets

    def _emit(self, value: Value, pipeline: TemplatePipeline) -> None:
        try:
            for part in parts_of(format_value(value)):
                if isinstance(part, Quoted):
                    whole = str(part)
                    is_final = self.is_shown and self.syntax is not ScriptSyntax.HTTP  # else its place decides
                    self._grow(whole if is_final else self.places.quote_value(part.quote, part.value, whole))
                else:
                    self._emit_raw(part)
        except Fault as fault:
            fault.at = pipeline.at if fault.at is None else fault.at
            fault.parameters = fault.parameters or tuple(dict.fromkeys(mentioned_inputs(pipeline.value)))
            raise

    def _emit_raw(self, text: str) -> None:
        self.places.add_text(text)
        self._grow(text)

    def _grow(self, text: str) -> None:
        self.size += len(text) if text.isascii() else len(text.encode())
        if self.size > MAX_OUTPUT:
            raise Fault(f"the script is longer than {MAX_OUTPUT:,} bytes")
        self.out.append(text)

    def _step(self, at: int) -> None:
        self.steps += 1
        self.budget.step()
        if self.steps > MAX_STEPS:
            raise Fault(f"the runbook takes more than {MAX_STEPS:,} steps", at)

    def _charge(self, values: list[Value], at: int) -> None:
        for value in values:
            length = len(value) if isinstance(value, str) else sum(map(len, value)) if isinstance(value, list) else 0
            if length > MAX_OUTPUT:
                raise Fault(f"a text is longer than {MAX_OUTPUT:,} characters", at)
            self.work += length
            if length > _LONG:
                self.budget.check()
        if self.work > MAX_WORK:
            raise Fault(f"functions read and write more than {MAX_WORK:,} characters", at)


def mentioned_inputs(node: Expression) -> list[str]:
    """Return the inputs that an expression names, for messages."""
    if isinstance(node, FieldNode):
        return [node.name]
    if isinstance(node, Call):
        return [name for arg in node.args for name in mentioned_inputs(arg)]
    return []
