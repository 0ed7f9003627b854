"""A runbook's text as a template: what it asks for, and what it becomes.

`docs/how-to/write-runbooks.md` is the language for who writes one, `parser.py` its grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from postern.domain.runbook import Parameter
from postern.domain.text import one_line
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.effort import Effort
from postern.runbooks.evaluator import TemplateEvaluator
from postern.runbooks.faults import Fault, RenderError, TemplateError, place_of
from postern.runbooks.inputs import problem_of
from postern.runbooks.parameters import ParameterSurvey
from postern.runbooks.quoting import syntax_of
from postern.runbooks.runbook_parser import read
from postern.runbooks.runbook_tree import Tree

__all__ = ["RenderError", "Rendered", "Template", "TemplateError", "parse", "syntax_of"]

MAX_TEXT = 1_000_000  # characters of a runbook
MAX_VALUE = 1_000_000  # characters of one value
MASK = "***"
MAX_SHOWN = 100  # unknown names, and characters of each


@dataclass(frozen=True, slots=True)
class Rendered:
    """What runs: the script, and variables for its environment by their names. Both may hold secrets."""

    text: str = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """`parameters` in the order of a form. `unquoted`: names of those that get into the script as they were given, of
    a type that lets anything pass."""

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
        """Filled in. An input that is left out is empty, unless the runbook has a default or insists on one.

        `masked`: everything is checked as it was given, and the answer is what it would be if each hidden parameter
        were `***`: for readers. `rest` is called now and then, so that others have their turn; what it
        raises ends it. Raises RenderError, which names all inputs that are missing, unknown or wrong at once.
        """
        given = self._checked(values)
        effort = Effort(rest)
        made = self._run(given, syntax, effort, is_shown=False)
        hidden = {one.name for one in self.parameters if one.is_hidden and given[one.name]}
        if not masked or not hidden:
            return made
        shown = {name: MASK if name in hidden else given[name] for name in given}
        return self._run(shown, syntax, effort, is_shown=True)

    def _run(self, given: Mapping[str, str], syntax: ScriptSyntax, effort: Effort, *, is_shown: bool) -> Rendered:
        defaults = {one.name: one.default for one in self.parameters if one.default}
        machine = TemplateEvaluator(self._tree, given, defaults, self._survey.own, syntax, effort, is_shown)
        try:
            return Rendered(machine.run(), machine.environment)
        except Fault as fault:
            raise self._refused(fault) from None
        except RecursionError:
            raise RenderError("the runbook's blocks and calls stand too deep within each other") from None

    def _checked(self, values: Mapping[str, str]) -> dict[str, str]:
        names = [one.name for one in self.parameters]
        unknown = sorted(str(name) for name in values.keys() - set(names))
        if unknown:
            told = ", ".join(one_line(name[:MAX_SHOWN]) for name in unknown[:MAX_SHOWN])
            known = f"it has [{', '.join(names)}]" if names else "it has none"
            raise RenderError(f"the runbook has no inputs [{told}]; {known}", parameters=tuple(unknown))
        given = {name: values.get(name, "") for name in names}
        missing = [one.name for one in self.parameters if one.required and not given[one.name] and not one.default]
        if missing:
            messages = [f"{name}: {text}" for name in missing if (text := self._survey.messages.get(name))]
            told = f"the following inputs are missing [{', '.join(missing)}]; give each a value"
            raise RenderError("; ".join([told, *messages]), parameters=tuple(missing))
        wrong = {one.name: why for one in self.parameters if (why := _problem(one, given[one.name]))}
        if wrong:
            told = "; ".join(f"input {name} {why}" for name, why in wrong.items())
            raise RenderError(told, parameters=tuple(wrong))
        return given

    def _refused(self, fault: Fault) -> RenderError:
        about = ", ".join(fault.parameters)
        message = f"input {about}: {fault.message}" if about else fault.message
        line, column = (0, 0) if fault.at is None else place_of(self._text, fault.at)
        return RenderError(message, line, column, fault.parameters)


def parse(text: str) -> Template:
    """Raises TemplateError."""
    try:
        if len(text) > MAX_TEXT:
            raise Fault(f"a runbook has at most {MAX_TEXT:,} characters", 0)
        if not _is_text(text):
            raise Fault("the runbook holds characters that are no text", 0)
        tree = read(text)
        survey = ParameterSurvey(tree)
        parameters = survey.parameters()
    except Fault as fault:
        raise TemplateError(fault.message, *place_of(text, fault.at or 0)) from None
    except RecursionError:
        raise TemplateError("blocks and calls stand too deep within each other", 1, 1) from None
    return Template(parameters, survey.unquoted(parameters), text, tree, survey)


def _problem(parameter: Parameter, value: str) -> str:
    if not isinstance(value, str):
        return "must be a text"
    if len(value) > MAX_VALUE:
        return f"must have at most {MAX_VALUE:,} characters"
    if "\0" in value or not _is_text(value):
        return "must be a text: a NUL or half of a character is in it"
    return problem_of(parameter, value)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
