"""Signatures of the functions of runbooks, which are checked before a runbook runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from postern.runbooks.inputs import TYPES, compile_pattern
from postern.runbooks.runbook_tree import Call, Literal
from postern.runbooks.template_errors import Fault

MAX_LENGTH = 1_000_000  # limit of the arguments of minlength, maxlength and order
MAX_OPTIONS = 1_000
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED = "POSTERN_"


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a function.

    - `least`, `most`: number of arguments, including the one from a pipe.
    - `literals`: number of first arguments (-1: all but the last) that must be literals, so that no value of a user
      becomes a pattern, a format or the name of a type.
    - `keeps_subject`: it describes the parameter that it is applied to, or converts it.
    - `only_says`: it only describes it.
    """

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
    """Check a call. Raises Fault if it can never work."""
    signature = SIGNATURES[call.name]
    argument_count = len(call.args)
    if argument_count < signature.least or (signature.most is not None and argument_count > signature.most):
        raise Fault(f"{call.name} takes {_describe_count(signature)}, but has {argument_count}", call.at)
    literals = call.args[: signature.literals] if signature.literals else ()
    for argument in literals:
        if not isinstance(argument, Literal) or argument.value is None:
            raise Fault(f"{call.name} takes a literal of the runbook, not the value of an input", argument.at)
        if call.name in _TEXTS and not isinstance(argument.value, str):
            raise Fault(f"{call.name} takes a text, in quotes", argument.at)
    if signature.only_says and call.subject is None:
        raise Fault(f"{call.name} describes an input, but there is none before it", call.at)
    if literals:
        _check_literal(call, literal_text(call.args[0]))


def literal_text(node: object) -> str:
    """Return a literal as metadata displays it: `true`, `5`, `text`."""
    assert isinstance(node, Literal)
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    return str(node.value)


def _check_literal(call: Call, first: str) -> None:
    if call.name == "type" and first not in TYPES:
        raise Fault(f"the type {first!r} does not exist; use one of {', '.join(TYPES)}", call.at)
    if call.name == "pattern":
        compile_pattern(first, call.at)
    if call.name in _NUMBERS:
        least = -MAX_LENGTH if call.name == "order" else 0
        if not re.fullmatch(r"-?[0-9]{1,10}", first) or not least <= int(first) <= MAX_LENGTH:
            raise Fault(f"{call.name} takes a whole number up to {MAX_LENGTH:,}", call.at)
    if call.name == "asenv":
        if not _ENVIRONMENT_NAME.fullmatch(first):
            raise Fault(f"{first!r} is not a valid name of an environment variable: use letters, digits and _", call.at)
        if first.startswith(_RESERVED):
            raise Fault(f"names that start with {_RESERVED} are reserved for the gateway", call.at)
    if call.name in ("split", "quotechar") and not first:
        raise Fault(f"{call.name} needs a character", call.at)


def _describe_count(signature: Signature) -> str:
    if signature.least == signature.most:
        return f"{signature.least} argument{'s' * (signature.least != 1)}"
    return f"at least {signature.least}" if signature.most is None else f"{signature.least} to {signature.most}"
