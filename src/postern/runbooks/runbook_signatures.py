"""The functions of runbooks: what each takes, as far as that is known before anybody runs one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from postern.runbooks.faults import Fault
from postern.runbooks.inputs import TYPES, compiled
from postern.runbooks.runbook_tree import Call, Literal

MAX_LENGTH = 1_000_000  # what minlength, maxlength and order may say
MAX_OPTIONS = 1_000
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED = "POSTERN_"


@dataclass(frozen=True, slots=True)
class Signature:
    """`least` and `most` arguments, with the one that a pipe brings. `literals` of them, from the first (-1: all but
    the last), stand in the text: nobody's value becomes a pattern, a format or the name of a type. `keeps_subject`: it
    says something about the parameter it is applied to, or gives another form of it. `only_says`: nothing else."""

    least: int
    most: int | None
    literals: int = 0
    keeps_subject: bool = False
    only_says: bool = False


_ANNOTATION = Signature(2, 2, 1, keeps_subject=True)
_REMARK = Signature(2, 2, 1, keeps_subject=True, only_says=True)
_FORM = Signature(1, 1, keeps_subject=True)
_TWO = Signature(2, 2)
_SOME = Signature(1, None)

SIGNATURES: Mapping[str, Signature] = {
    "required": _ANNOTATION,
    "default": Signature(2, 2, keeps_subject=True),
    "pattern": _ANNOTATION,
    "type": _ANNOTATION,
    "options": Signature(2, MAX_OPTIONS + 1, -1, keeps_subject=True),
    "minlength": _ANNOTATION,
    "maxlength": _ANNOTATION,
    "description": _REMARK,
    "placeholder": _REMARK,
    "order": _REMARK,
    "asenv": _ANNOTATION,
    "squote": _FORM,
    "dquote": _FORM,
    "quotechar": _ANNOTATION,
    "encodeb64": _FORM,
    "decodeb64": _FORM,
    "split": Signature(2, 2, 1),
    "eq": Signature(2, None),
    **dict.fromkeys(("ne", "lt", "le", "gt", "ge"), _TWO),
    **dict.fromkeys(("and", "or", "html", "js", "urlquery"), _SOME),
    **dict.fromkeys(("print", "println"), Signature(0, None)),
    "printf": Signature(1, None, 1),
    "not": Signature(1, 1),
    "len": Signature(1, 1),
    "index": _TWO,
    "slice": Signature(1, 3),
}
_NUMBERS = frozenset({"minlength", "maxlength", "order"})
_TEXTS = frozenset(
    {"required", "pattern", "type", "description", "placeholder", "asenv", "quotechar", "split", "printf"}
)


def check_call(call: Call) -> None:
    """Raises Fault where it can never do what it should."""
    signature = SIGNATURES[call.name]
    given = len(call.args)
    if given < signature.least or (signature.most is not None and given > signature.most):
        raise Fault(f"{call.name} takes {_counted(signature)}, and has {given}", call.at)
    literals = call.args[: signature.literals] if signature.literals else ()
    for one in literals:
        if not isinstance(one, Literal) or one.value is None:
            raise Fault(f"{call.name} takes what stands in the runbook, and no value of an input", one.at)
        if call.name in _TEXTS and not isinstance(one.value, str):
            raise Fault(f"{call.name} takes a text, in quotes", one.at)
    if signature.only_says and call.subject is None:
        raise Fault(f"{call.name} says something about an input, and none stands in front of it", call.at)
    if literals:
        _check_literal(call, literal_text(call.args[0]))


def literal_text(node: object) -> str:
    """A literal as metadata shows it: `true`, `5`, `text`."""
    assert isinstance(node, Literal)
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    return str(node.value)


def _check_literal(call: Call, first: str) -> None:
    if call.name == "type" and first not in TYPES:
        raise Fault(f"there is no type {first!r}; there are {', '.join(TYPES)}", call.at)
    if call.name == "pattern":
        compiled(first, call.at)
    if call.name in _NUMBERS:
        least = -MAX_LENGTH if call.name == "order" else 0
        if not re.fullmatch(r"-?[0-9]{1,10}", first) or not least <= int(first) <= MAX_LENGTH:
            raise Fault(f"{call.name} takes a whole number up to {MAX_LENGTH:,}", call.at)
    if call.name == "asenv":
        if not _ENVIRONMENT_NAME.fullmatch(first):
            raise Fault(f"{first!r} is no name of an environment variable: letters, digits and underscores", call.at)
        if first.startswith(_RESERVED):
            raise Fault(f"names with {_RESERVED} are the gateway's own", call.at)
    if call.name in ("split", "quotechar") and not first:
        raise Fault(f"{call.name} needs a character", call.at)


def _counted(signature: Signature) -> str:
    if signature.least == signature.most:
        return f"{signature.least} argument{'s' * (signature.least != 1)}"
    return f"at least {signature.least}" if signature.most is None else f"{signature.least} to {signature.most}"
