"""Parser of templates: the syntax of Go's text/template, without what makes no sense for texts.

    template  = { text | comment | action }
    comment   = "{{" "/*" … "*/" "}}"
    action    = "{{" pipeline "}}"
              | "{{" "if" pipeline "}}" body { "{{" "else" "if" pipeline "}}" body } [ "{{" "else" "}}" body ] end
              | "{{" "with" pipeline "}}" body { "{{" "else" "with" pipeline "}}" body } [ "{{" "else" "}}" body ] end
              | "{{" "range" [ [ $i "," ] $v ":=" ] pipeline "}}" body [ "{{" "else" "}}" body ] end
              | "{{" "break" "}}" | "{{" "continue" "}}"                 within range
              | "{{" "define" string "}}" body end                       at the top only
              | "{{" "block" string pipeline "}}" body end               define and template in one
              | "{{" "template" string [ pipeline ] "}}"
    end       = "{{" "end" "}}"
    pipeline  = [ $v ( ":=" | "=" ) ] command { "|" command }
    command   = operand | function { operand }
    operand   = "." | field | variable [ field ] | literal | function | "(" pipeline ")"
    field     = "." name                                                 of the inputs
    variable  = "$" | "$" name
    literal   = string | raw string | character | integer | float | "true" | "false" | "nil"

White space separates the operands of a command. "{{- " removes the white space before an action, " -}}" that after it.
The value of a pipe becomes the last argument of the next command, so that a chain of commands is parsed as nested
calls. Inputs are texts and have no fields; only the inputs as a whole do.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from itertools import islice

from postern.runbooks.lexer import TemplateToken, tokens
from postern.runbooks.runbook_signatures import SIGNATURES, check_call
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
from postern.runbooks.template_errors import Fault

MAX_TOKENS = 100_000
MAX_NODES = 20_000
MAX_BLOCKS = 50  # nested
MAX_VARIABLES = 200  # in scope: each use searches them
MAX_EXPRESSION = 60  # nested calls, including those of a chain
_KEYWORDS = frozenset({"if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"})
_CONSTANTS = {"true": True, "false": False, "nil": None}
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9A-Fa-f_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[+-]?(?:[0-9][0-9_]*)?(?:\.[0-9_]*)?(?:[eE][+-]?[0-9]+)?")


def read(text: str) -> Tree:
    """Parse a template. Raises Fault."""
    lexed = list(islice(tokens(text), MAX_TOKENS))
    if len(lexed) == MAX_TOKENS:
        raise Fault(f"a runbook has at most {MAX_TOKENS:,} tokens in its actions", lexed[-1].at)
    return _Parser(lexed).tree()


@dataclass(slots=True)
class _Parser:
    tokens: list[TemplateToken]
    at: int = 0
    nodes: int = 0
    blocks: int = 0
    ranges: int = 0
    parentheses: int = 0
    variables: list[str] = field(default_factory=lambda: [""])
    templates: dict[str, tuple[Node, ...]] = field(default_factory=dict)

    def tree(self) -> Tree:
        body, ended = self._body(top=True)
        if ended.kind != "end":
            raise Fault(f"{ended.value} does not belong to a block", ended.at)
        return Tree(body, self.templates)

    # Blocks

    def _body(self, top: bool = False) -> tuple[tuple[Node, ...], TemplateToken]:
        """Parse up to the `else` or `end` of an outer block, or the end of the text."""
        nodes: list[Node] = []
        while True:
            token = self._next()
            if token.kind == "end":
                return tuple(nodes), token
            if token.kind == "text":
                if token.value:
                    nodes.append(TextNode(token.at, token.value))
                continue
            word = self._peek()
            if word.kind != "word" or word.value not in _KEYWORDS:
                nodes.append(TemplateAction(word.at, self._whole_pipeline(may_declare=True)))
            elif word.value in ("else", "end"):
                return tuple(nodes), self._next()
            elif word.value == "define":
                if not top:
                    raise Fault("define is only allowed outside of all blocks", word.at)
                self._define()
            else:
                nodes.append(self._keyword(self._next()))
            self._count(token.at)

    def _keyword(self, word: TemplateToken) -> Node:
        if word.value in ("break", "continue"):
            if not self.ranges:
                raise Fault(f"{word.value} is only allowed within range", word.at)
            self._close()
            return Jump(word.at, word.value)
        if word.value in ("template", "block"):
            name = self._name(word)
            is_bare = self._peek().kind == "close"
            if is_bare and word.value == "block":
                raise Fault("block needs an argument after its name, such as a dot", word.at)
            if is_bare:
                self._close()
            pipeline = None if is_bare else self._whole_pipeline()
            if word.value == "block":
                self._define_as(name, word)
            return Include(word.at, name, pipeline)
        return self._block(word)

    def _block(self, word: TemplateToken) -> Block:
        scope_size = len(self.variables)
        pipeline = self._whole_pipeline(may_declare=True, is_range=word.value == "range")
        declared = len(self.variables)
        self._enter_block(word)
        self.ranges += word.value == "range"
        body, ended = self._body()
        self.ranges -= word.value == "range"
        del self.variables[declared:]
        otherwise: tuple[Node, ...] = ()
        if ended.value == "else":
            otherwise, ended = self._else(word)
        self._end(ended, word)
        self.blocks -= 1
        del self.variables[scope_size:]
        return Block(word.at, word.value, pipeline, body, otherwise)

    def _else(self, word: TemplateToken) -> tuple[tuple[Node, ...], TemplateToken]:
        nested = self._peek()
        if nested.kind == "word" and nested.value == word.value and word.value in ("if", "with"):
            block = self._block(self._next())
            return (block,), TemplateToken("word", "end", -1)  # one end closes both
        self._close()
        return self._body()

    def _end(self, ended: TemplateToken, word: TemplateToken) -> None:
        if ended.value != "end":
            reason = "is not closed: {{ end }} is missing" if ended.kind == "end" else "has a second else"
            raise Fault(f"{word.value} {reason}", word.at)
        if ended.at >= 0:
            self._close()

    def _define(self) -> None:
        word = self._next()
        name = self._name(word)
        self._close()
        self._define_as(name, word)

    def _define_as(self, name: str, word: TemplateToken) -> None:
        if name in self.templates:
            raise Fault(f"the template {name!r} is defined twice", word.at)
        self.templates[name] = ()
        outer, ranges = self.variables, self.ranges
        self.variables, self.ranges = [""], 0
        self._enter_block(word)
        body, ended = self._body()
        self._end(ended, word)
        self.blocks -= 1
        self.variables, self.ranges = outer, ranges
        self.templates[name] = body

    def _enter_block(self, word: TemplateToken) -> None:
        self.blocks += 1
        if self.blocks > MAX_BLOCKS:
            raise Fault(f"more than {MAX_BLOCKS} blocks are nested", word.at)

    def _name(self, word: TemplateToken) -> str:
        token = self._next()
        if token.kind != "string":
            raise Fault(f"{word.value} needs the name of a template, in quotes", token.at)
        return token.value

    # Pipelines

    def _whole_pipeline(self, may_declare: bool = False, is_range: bool = False) -> TemplatePipeline:
        pipeline = self._pipeline(may_declare, is_range)
        self._close()
        return pipeline

    def _pipeline(self, may_declare: bool, is_range: bool) -> TemplatePipeline:
        start = self._peek()
        names, assigns = self._declarations(is_range) if may_declare else ((), False)
        value = self._command(None)
        while self._peek().kind == "sign" and self._peek().value == "|":
            self._next()
            value = self._command(value)
        if assigns:
            for name in names:
                self._require_variable(name, start.at)
        else:
            self.variables.extend(names)
            if len(self.variables) > MAX_VARIABLES:
                raise Fault(f"there are more than {MAX_VARIABLES} variables in scope", start.at)
        return TemplatePipeline(start.at, value, names, assigns)

    def _declarations(self, is_range: bool) -> tuple[tuple[str, ...], bool]:
        names: list[str] = []
        ahead = self.at
        while self.tokens[ahead].kind == "variable" and len(names) < 2:
            names.append(self.tokens[ahead].value[1:])
            sign = self.tokens[ahead + 1]
            if sign.kind == "declare" or (sign.kind == "sign" and sign.value == "="):
                if not all(names):
                    raise Fault("$ is the inputs; a variable needs a name", self.tokens[ahead].at)
                self.at = ahead + 2
                return tuple(names), sign.kind == "sign"
            if not is_range or sign.value != ",":
                break
            ahead += 2
        return (), False

    def _command(self, piped: Expression | None) -> Expression:
        token = self._peek()
        if token.kind == "word" and token.value not in _CONSTANTS:
            self._next()
            args = list(self._arguments())
            if piped is not None:
                args.append(piped)
            return self._call(token, tuple(args))
        if piped is not None:
            raise Fault("a pipe must be followed by a function", token.at)
        value = self._operand()
        if self._is_operand(self._peek()):
            raise Fault("only functions take arguments; use a pipe after a value", self._peek().at)
        return value

    def _arguments(self) -> list[Expression]:
        operands: list[Expression] = []
        while self._is_operand(self._peek()):
            token = self._peek()
            if not token.spaced:
                raise Fault("a blank is missing before this", token.at)
            operands.append(self._operand())
        return operands

    def _is_operand(self, token: TemplateToken) -> bool:
        if token.kind == "sign":
            return token.value in ".("
        return token.kind in ("string", "char", "number", "field", "variable", "word")

    def _operand(self) -> Expression:
        token = self._next()
        value = self._term(token)
        after = self._peek()
        if after.kind == "field" and not after.spaced:
            if not isinstance(value, VariableNode):
                raise Fault("this has no fields; inputs are texts, written as .name", after.at)
            self._next()
            value = FieldNode(token.at, after.value[1:], value)
            if self._peek().kind == "field" and not self._peek().spaced:
                raise Fault("an input is a text, and has no fields", self._peek().at)
        self._count(token.at)
        return value

    def _term(self, token: TemplateToken) -> Expression:
        if token.kind == "field":
            return FieldNode(token.at, token.value[1:], Dot(token.at))
        if token.kind == "variable":
            self._require_variable(token.value[1:], token.at)
            return VariableNode(token.at, token.value[1:])
        if token.kind == "string":
            return Literal(token.at, token.value)
        if token.kind == "char":
            if len(token.value) != 1:
                raise Fault("single quotes take one character; use double quotes for a text", token.at)
            return Literal(token.at, ord(token.value))
        if token.kind == "number":
            return Literal(token.at, number(token))
        if token.kind == "word":
            if token.value in _CONSTANTS:
                return Literal(token.at, _CONSTANTS[token.value])
            return self._call(token, ())
        if token.kind == "sign" and token.value == ".":
            return Dot(token.at)
        if token.kind == "sign" and token.value == "(":
            return self._parenthesised_value(token)
        if token.kind == "close":
            raise Fault("an action cannot be empty", token.at)
        raise Fault(f"{token.value!r} is not valid here", token.at)

    def _parenthesised_value(self, token: TemplateToken) -> Expression:
        self.parentheses += 1
        if self.parentheses > MAX_EXPRESSION:
            raise Fault(f"more than {MAX_EXPRESSION} parentheses are nested", token.at)
        value = self._pipeline(False, False).value
        closing = self._next()
        if closing.value != ")" or closing.kind != "sign":
            raise Fault("a parenthesis is not closed", token.at)
        self.parentheses -= 1
        return value

    def _call(self, token: TemplateToken, args: tuple[Expression, ...]) -> Call:
        if token.value in _KEYWORDS:
            raise Fault(f"{token.value} is only allowed at the start of an action", token.at)
        if token.value not in SIGNATURES:
            raise Fault(f"the function {token.value!r} does not exist", token.at)
        depth = 1 + max((one.depth for one in args if isinstance(one, Call)), default=0)
        if depth > MAX_EXPRESSION:
            raise Fault(f"more than {MAX_EXPRESSION} functions are chained", token.at)
        subject = None
        if args and SIGNATURES[token.value].keeps_subject:
            last = args[-1]
            subject = last if isinstance(last, FieldNode) else last.subject if isinstance(last, Call) else None
        call = Call(token.at, token.value, args, depth, subject)
        check_call(call)
        self._count(token.at)
        return call

    # Tokens

    def _require_variable(self, name: str, at: int) -> None:
        if name not in self.variables:
            raise Fault(f"the variable ${name} is not defined here", at)

    def _next(self) -> TemplateToken:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def _peek(self) -> TemplateToken:
        return self.tokens[self.at]

    def _close(self) -> None:
        token = self._next()
        if token.kind != "close":
            raise Fault(f"{token.value!r} is not valid here: end the action with }}}}", token.at)

    def _count(self, at: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise Fault(f"a runbook has at most {MAX_NODES:,} parts", at)


def number(token: TemplateToken) -> int | float:
    """Parse an integer of 64 bits or a float in Go's syntax. Raises Fault."""
    written = token.value
    if _INTEGER.fullmatch(written):
        digits = written.replace("_", "")
        sign, rest = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
        octal = len(rest) > 1 and rest[0] == "0" and rest[1].isdigit()
        try:
            value = sign * int(rest, 8 if octal else 0)
        except ValueError:
            raise Fault("this is not a number", token.at) from None
        if not -(2**63) <= value < 2**63:
            raise Fault("an integer has at most 64 bits", token.at)
        return value
    if _FLOAT.fullmatch(written):
        try:
            real = float(written)
        except ValueError:
            real = math.inf
        if math.isfinite(real):
            return real
    raise Fault("this is not a number", token.at)
