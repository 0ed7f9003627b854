"""Detectors for a set of kinds: they find or replace values in one text or in many at once.

A form whose own score reaches the threshold is searched wherever its candidate matches. A form that needs a context
word is searched if the column's name is such a word, and after such words in a text. The first fast search then looks
for the words, which are rarer than short numbers.

A context word applies to the first value after it in the same line and cell, with no digit or `*` between them: a
masked value counts like the digits before it, so that masking twice equals masking once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from postern.domain.rules.masking import CustomType, InfoType
from postern.errors import Unavailable
from postern.inspection.masking.catalogue import ORDER
from postern.inspection.masking.custom import custom_form
from postern.inspection.masking.detector import (
    MANY_MEMORY,
    SEPARATOR,
    Found,
    MaskedText,
    Searcher,
    Span,
    ValueForm,
    compile_linear,
    compile_re2,
    compile_set,
)
from postern.inspection.masking.masking_language import MODEL_TYPES, LanguageModel, model_forms, provided_model

# Maximal distance of a word before a value, in bytes.
REACH = 64
BOOST = 0.4
DOUBT = 0.3

_ENDS = re.compile(rb"[0-9*\x00\n\t]")
_CELL_ENDS = re.compile(rb"[\x00\n\t]")
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONG_ENOUGH = 5  # letters of a word that counts even as part of a longer one (`passportno`)

# Column names whose values only look like numbers of a kind.
_NAMES = (
    "order invoice tracking shipment sku isbn ean upc hash sha git commit version build uuid guid checksum etag "
    "timestamp created updated epoch price amount total quantity latitude longitude lat lon lng revision ticket"
)
_OTHER_THINGS = frozenset(_NAMES.split())


class Words:
    """Context words of one kind, in lower case, with a blank for any character that is not a letter."""

    __slots__ = ("_leap", "_near", "candidate", "named")

    def __init__(self, words: str) -> None:
        phrases = [" ".join(phrase.split()) for phrase in words.split(",")]
        spelled = [re.escape(phrase).replace(r"\ ", "[ _-]?") for phrase in phrases]
        glued = (phrase.replace(" ", "") for phrase in phrases)
        names = [*(f" {phrase} " for phrase in phrases), *(phrase for phrase in glued if len(phrase) >= _LONG_ENOUGH)]
        # RE2 expression that matches in `spelled_out` of a column's name that contains one of them.
        self.named = "|".join(re.escape(phrase) for phrase in names).encode()
        either = "|".join(sorted(spelled, key=len, reverse=True))
        self._near = re.compile(rf"(?<![A-Za-z])(?:{either})(?![A-Za-z])".encode(), re.IGNORECASE)
        # RE2 expression that matches in every text that contains one of them.
        self.candidate = rf"(?:\b|[0-9_])(?i:{either})(?:\b|[0-9_])".encode()
        self._leap = compile_re2(self.candidate)

    def speak_for(self, text: bytes, start: int) -> bool:
        """Return whether one of them precedes the value that begins at `start`."""
        before = text[max(0, start - REACH) : start]
        return self._near.search(_behind_last_end(before)) is not None

    def find_near(self, text: bytes, find: Callable[[bytes], list[tuple[int, int]]]) -> list[tuple[int, int]]:
        """Return what `find` finds after the first context word of each cell or line."""
        spans: list[tuple[int, int]] = []
        at = 0
        while word := self._leap.search(text, at):
            end = _CELL_ENDS.search(text, word.start() + 2)
            at = end.start() if end is not None else len(text)
            start = word.start()
            spans += [(start + first, start + last) for first, last in find(text[start:at])]
        return spans


def _behind_last_end(before: bytes) -> bytes:
    last = 0
    for end in _ENDS.finditer(before):
        last = end.end()
    return before[last:]


@lru_cache(maxsize=1024)
def tokens_of(column: str) -> tuple[str, ...]:
    """Split a column's name: `customerSSN_no` becomes `customer`, `ssn`, `no`."""
    return tuple(token.lower() for token in _TOKENS.findall(column[:256]))


def spelled_out(tokens: tuple[str, ...]) -> bytes:
    """Return the text in which the words of a column's name are searched: its tokens separated, and joined."""
    return f" {' '.join(tokens)} \n{''.join(tokens)}".encode()


def names_another_thing(tokens: tuple[str, ...]) -> bool:
    return not _OTHER_THINGS.isdisjoint(tokens)


ROUNDS = 3
THRESHOLD = 0.5
# Scores from here on need no support: a column's name does not lower them, because the author of a statement chooses
# the names in its answer.
FIRM = 0.6
# Placeholder for a form that is not searched by its candidate; it matches nothing.
_NOTHING = rb"[^\x00-\xff]"
_SEPARATORS = b",;/| &"
Look = Callable[[bytes], object | None]
# Texts with candidates are many if they are a quarter of all bytes, after the first eight candidates.
_FEW = 4
_FIRST = 8


@dataclass(frozen=True, slots=True)
class CandidateForm:
    """Form in a set, with its scores: `alone`, and `boosted` with a supporting word."""

    kind: str
    form: ValueForm
    words: Words | None
    alone: float
    boosted: float


def _any_of(candidates: Sequence[bytes]) -> bytes:
    return b"|".join([b"(?:" + candidate + b")" for candidate in dict.fromkeys(candidates)])


def _find_no_label(text: bytes) -> None:
    """Return None: no form has a label."""


def compile_column(value: bytes) -> Searcher:
    """Return a pattern for texts that are a value each, separated by zero bytes."""
    return compile_linear(rb"(?:(?:" + value + rb")\x00)*(?:" + value + rb")")


class FormCatalogue:
    """Prepared forms, which are costly and the same for all columns, with one fast search for all of them."""

    def __init__(
        self,
        types: frozenset[str],
        custom: tuple[CustomType, ...],
        threshold: float,
        language: LanguageModel | None,
    ) -> None:
        missing = types & MODEL_TYPES - (language.types if language else frozenset())
        if missing:
            raise Unavailable(
                f"masking of {', '.join(sorted(missing))} needs a language model that supports them, but none "
                "is configured; run: pip install presidio-analyzer, and set masking_language_model, or "
                "remove them from the types"
            )
        self.threshold = threshold
        self.looked: list[CandidateForm] = []
        for detector in ORDER:
            if detector.type in types:
                for form in detector.forms:
                    self._add(detector.type, form, _WORDS.get(detector.type))
        for entry in custom:
            self._add(entry.name, custom_form(entry), None)
        if language is not None:
            for kind, form in model_forms(language, types & MODEL_TYPES, threshold):
                self._add(kind, form, None)
        candidates = [self._candidate(entry) for entry in self.looked]
        self.which = compile_set(candidates)
        self.any = compile_re2(_any_of(candidates), MANY_MEMORY)
        self.look: Look = self.any.search
        labels = [entry.form.label for entry in self.looked if entry.form.label is not None]
        self.label = compile_linear(_any_of(labels)).search if labels else _find_no_label
        self.asked = tuple((index, entry.form.quick) for index, entry in enumerate(self.looked) if entry.form.quick)
        # A text that is one value from end to end is only replaced as such if no other kind can interfere.
        sure = {entry.kind for entry in self.looked if entry.alone >= threshold}
        wholes = [(d.type, d.whole) for d in ORDER if d.whole and d.type in sure & types]
        self.whole = compile_set([whole.value for _, whole in wholes], whole=True) if wholes else None
        self.columns = tuple((kind, compile_column(whole.value).fullmatch, whole.mask) for kind, whole in wholes)

    def _add(self, kind: str, form: ValueForm, words: Words | None) -> None:
        score = min(1.0, form.score + BOOST) if words else form.score
        if score >= self.threshold:
            self.looked.append(CandidateForm(kind, form, words, form.score, score))

    def _candidate(self, entry: CandidateForm) -> bytes:
        if entry.form.quick is not None:
            return _NOTHING
        return entry.form.candidate if entry.alone >= self.threshold or entry.words is None else entry.words.candidate


class Detectors:
    """Detectors of some kinds for one column, or for texts without a column, with one fast search for all."""

    __slots__ = ("_catalogue", "_extra", "_looked", "_named_types", "types")

    def __init__(
        self, catalogue: FormCatalogue, types: frozenset[str], named_types: frozenset[str], doubted: bool
    ) -> None:
        self.types = types
        self._catalogue = catalogue
        self._named_types = named_types
        self._looked = [_lower_scores(entry, named_types) if doubted else entry for entry in catalogue.looked]
        # Forms that the column's name supports, although no context word is in the text.
        self._extra = [
            (index, compile_candidate(entry.form.candidate).search)
            for index, entry in enumerate(catalogue.looked)
            if entry.kind in named_types and entry.alone < catalogue.threshold
        ]

    def worth(self, text: bytes) -> list[int]:
        """Return the indexes of the forms that can find something in the text; empty if there is nothing to find."""
        catalogue = self._catalogue
        matching = catalogue.which(text)
        if not self._extra and not catalogue.asked:
            return sorted(matching) if matching else []
        indexes = set(matching or ())
        indexes.update(index for index, search in self._extra if search(text))
        indexes.update(index for index, quick in catalogue.asked if quick(text))
        return sorted(indexes)

    def first_look(self) -> Look | None:
        """Return the search that tells whether a text has a candidate of any form, the same for many columns; None if
        the column's name or a custom type adds to it.
        """
        catalogue = self._catalogue
        return None if self._extra or catalogue.asked else catalogue.look

    def may_find(self, text: bytes) -> bool:
        """Return whether `worth` would return any forms; faster if it would."""
        catalogue = self._catalogue
        if catalogue.look(text):
            return True
        return any(search(text) for _, search in self._extra) or any(quick(text) for _, quick in catalogue.asked)

    def are_quoted(self, worth: Sequence[int], documents: bytes) -> bool:
        """Return whether everything that can be found in JSON documents without escapes is in strings, and the same
        as in each string alone, or after its key and a colon.

        `worth` is the result of `worth` for the documents.
        """
        catalogue = self._catalogue
        if catalogue.asked or catalogue.label(documents):
            return False
        looked = catalogue.looked
        return all(looked[index].form.is_quoted and looked[index].alone >= catalogue.threshold for index in worth)

    def find_cells(self, joined: bytes) -> list[Span] | None:
        """Return the positions of the texts in which a form can find something; None if they are many, or not known.

        `joined` is texts separated by zero bytes. What matches in a text does not depend on the texts beside it. Texts
        that a match across a zero byte connects are returned as one.
        """
        catalogue = self._catalogue
        if self._extra or catalogue.asked:
            return None
        cells: list[Span] = []
        size = end = 0
        for count, match in enumerate(catalogue.any.finditer(joined)):
            if count >= _FIRST and size * _FEW > end:
                return None
            first, last = match.span()
            if last <= end:
                continue
            start = max(end, joined.rfind(SEPARATOR, end, first) + 1)
            end = joined.find(SEPARATOR, max(first, last - 1))
            if end < 0:
                end = len(joined)
            cells.append((start, end))
            size += end - start
        return cells

    def find(self, text: bytes) -> list[Found]:
        """Return every value in the text, by position and without overlaps."""
        spans: list[tuple[int, int, float, int]] = []
        for index in self.worth(text):
            for span, score in self._spans(index, text):
                spans.append((*span, score, index))
        return [
            Found(str(self._looked[index].kind), start, end, score)
            for start, end, score, index in _remove_overlaps(spans)
        ]

    def mask_column(self, texts: Sequence[bytes], joined: bytes) -> tuple[str, list[bytes]] | None:
        """Return the replacements if every text is a value of one kind and nothing else.

        `joined` is the texts separated by zero bytes.
        """
        if self._catalogue.whole is None:
            return None
        like_first = self._catalogue.whole(texts[0])
        if like_first is None or joined.count(SEPARATOR) != len(texts) - 1:
            return None
        kind, fullmatch, mask = self._catalogue.columns[like_first[0]]
        masked = mask(texts) if fullmatch(joined) else None
        if masked is None:
            return None
        # A custom type can also match the replacement, where a search would find it.
        if self._catalogue.asked:
            after = b"\x00".join(masked)
            if any(quick(after) for _, quick in self._catalogue.asked):
                return None
        return kind, masked

    def mask(self, text: bytes, worth: Sequence[int] | None = None) -> Iterator[tuple[str, MaskedText]]:
        """Yield what each form changed in the result of the ones before it; only those with matches.

        `worth` is the result of `worth` for the text, if known. Masking one value can reveal another one that
        overlapped, so the search is repeated.
        """
        if worth is None:
            worth = self.worth(text)
        for _ in range(ROUNDS):
            has_hits = False
            for index in worth:
                # most candidates of other kinds were in what is masked now
                if has_hits and not self._may_find(index, text):
                    continue
                masked = self._mask_form(index, text)
                if masked.hits:
                    has_hits = True
                    text = masked.text
                    yield self._looked[index].kind, masked
            if not has_hits:
                return
            worth = self.worth(text)

    def _may_find(self, index: int, text: bytes) -> bool:
        """Return whether one form can find something in the text."""
        form = self._looked[index].form
        if form.quick is not None:
            return form.quick(text)
        return compile_candidate(form.candidate).search(text) is not None

    def _mask_form(self, index: int, text: bytes) -> MaskedText:
        entry = self._looked[index]
        threshold = self._catalogue.threshold
        if entry.alone >= threshold or (entry.kind in self._named_types and entry.boosted >= threshold):
            return entry.form.mask(text)
        spans = [span for span, _ in self._spans(index, text)]
        if not spans:
            return MaskedText(text)
        return _replace_spans(text, spans, entry.form)

    def _spans(self, index: int, text: bytes) -> Iterator[tuple[Span, float]]:
        """Yield the form's values whose score reaches the threshold."""
        entry = self._looked[index]
        threshold = self._catalogue.threshold
        told_by_name = entry.kind in self._named_types
        behind = -1  # end of the last value that a word supported: `SSNs 1…, 2…`
        if told_by_name or entry.words is None or entry.alone >= threshold:
            values = entry.form.find(text)
        elif self._may_find(index, text):  # the word has matched, and can be an ordinary one
            values = entry.words.find_near(text, entry.form.find)
        else:
            return
        for start, end in values:
            is_named = told_by_name
            if not is_named and entry.words is not None and entry.alone < 1:
                is_named = entry.words.speak_for(text, start) or (behind >= 0 and _in_a_list(text[behind:start]))
                behind = end if is_named else -1
            score = entry.boosted if is_named else entry.alone
            if score >= threshold:
                yield (start, end), score


def _in_a_list(between: bytes) -> bool:
    return 0 < len(between) <= 3 and not between.strip(_SEPARATORS)


def _lower_scores(entry: CandidateForm, named_types: frozenset[str]) -> CandidateForm:
    if entry.alone >= FIRM or entry.kind in named_types:
        return entry
    return CandidateForm(entry.kind, entry.form, entry.words, entry.alone - DOUBT, entry.boosted - DOUBT)


def _replace_spans(text: bytes, spans: list[Span], form: ValueForm) -> MaskedText:
    """Replace each value as the form would if it stood alone."""
    parts: list[bytes] = []
    copied = size = 0
    for start, end in spans:
        parts += (text[copied:start], form.mask(text[start:end]).text)
        copied = end
        size += end - start
    parts.append(text[copied:])
    return MaskedText(b"".join(parts), len(spans), size)


def _remove_overlaps(spans: list[tuple[int, int, float, int]]) -> list[tuple[int, int, float, int]]:
    """Remove overlaps: the longer one stays; of two equal ones, the one with the higher score."""
    remaining: list[tuple[int, int, float, int]] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1], -span[2], span[3])):
        if not remaining or span[0] >= remaining[-1][1]:
            remaining.append(span)
        elif span[1] > remaining[-1][1] and span[2] > remaining[-1][2]:
            remaining[-1] = span
    return remaining


@lru_cache(maxsize=512)
def compile_candidate(candidate: bytes) -> Searcher:
    return compile_linear(candidate)


@lru_cache(maxsize=16)
def _catalogue_for(
    types: frozenset[str], custom: tuple[CustomType, ...], threshold: float, language: LanguageModel | None
) -> FormCatalogue:
    return FormCatalogue(types, custom, threshold, language)


@lru_cache(maxsize=256)
def _for_hints(
    types: frozenset[str],
    custom: tuple[CustomType, ...],
    threshold: float,
    language: LanguageModel | None,
    named_types: frozenset[str],
    doubted: bool,
) -> Detectors:
    return Detectors(_catalogue_for(types, custom, threshold, language), types, named_types, doubted)


@lru_cache(maxsize=2048)
def _hints(types: frozenset[str], tokens: tuple[str, ...]) -> tuple[frozenset[str], bool]:
    """Return the kinds that a column's name supports, and whether it names something else."""
    named_types = types.intersection(_NAMED[place] for place in _which_named(spelled_out(tokens)) or ())
    return named_types, not named_types and names_another_thing(tokens)


_WORDS = {detector.type: Words(detector.words) for detector in ORDER if detector.words}
_NAMED = tuple(_WORDS)
_which_named = compile_set([words.named for words in _WORDS.values()])


def detectors_for(
    types: frozenset[str] | frozenset[InfoType],
    custom: tuple[CustomType, ...] = (),
    threshold: float = THRESHOLD,
    column: str = "",
    language: LanguageModel | None = None,
) -> Detectors:
    """Return detectors, shared by all sessions that mask the same kinds.

    `types` are names of InfoType, `column` is the column's name. `language` defaults to the process's own model, if
    any. Raises Unavailable for kinds that need a missing language model, Invalid for a custom type that cannot be
    searched.
    """
    names: frozenset[str] = frozenset(types)
    language = language or provided_model()
    named_types, doubted = _hints(names, tokens_of(column)) if column else (frozenset(), False)
    return _for_hints(names, custom, threshold, language, named_types, doubted)
