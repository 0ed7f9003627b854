"""The detectors for a set of kinds: they find or replace values in one text or in many at once.

A form whose score reaches the threshold by itself is looked for wherever its candidate is found. One that reaches it
only with a context word is looked for where the column's name is such a word, and behind such words in a text; there
the first quick search is for the words, which are rarer than short numbers.

A context word applies to the first value behind it, in the same line and cell, with neither digit nor `*` between: a
masked value counts like the digits before it, so that masking twice is the same as masking once.
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
    Found,
    MaskedText,
    Searcher,
    Span,
    ValueForm,
    compile_linear,
    compile_re2,
    compile_set,
)
from postern.inspection.masking.masking_language import MODEL_TYPES, LanguageModel, model_forms, provided

# How far before a value, in bytes, a word may stand.
REACH = 64
BOOST = 0.4
DOUBT = 0.3

_ENDS = re.compile(rb"[0-9*\x00\n\t]")
_CELL_ENDS = re.compile(rb"[\x00\n\t]")
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONG_ENOUGH = 5  # letters of a word that tells even where it is glued to others (`passportno`)

# Names of columns whose values are made to look like numbers of something.
_NAMES = (
    "order invoice tracking shipment sku isbn ean upc hash sha git commit version build uuid guid checksum etag "
    "timestamp created updated epoch price amount total quantity latitude longitude lat lon lng revision ticket"
)
_OTHER_THINGS = frozenset(_NAMES.split())


class Words:
    """The words that speak for one kind; each in lower case, a blank for anything that is no letter."""

    __slots__ = ("_leap", "_near", "candidate", "named")

    def __init__(self, words: str) -> None:
        phrases = [" ".join(one.split()) for one in words.split(",")]
        spelled = [re.escape(one).replace(r"\ ", "[ _-]?") for one in phrases]
        glued = (one.replace(" ", "") for one in phrases)
        names = [*(f" {one} " for one in phrases), *(one for one in glued if len(one) >= _LONG_ENOUGH)]
        # An RE2 expression found in `spelled_out` of a column's name that holds one of them.
        self.named = "|".join(re.escape(one) for one in names).encode()
        either = "|".join(sorted(spelled, key=len, reverse=True))
        self._near = re.compile(rf"(?<![A-Za-z])(?:{either})(?![A-Za-z])".encode(), re.IGNORECASE)
        # An RE2 expression found in every text that holds one of them.
        self.candidate = rf"(?:\b|[0-9_])(?i:{either})(?:\b|[0-9_])".encode()
        self._leap = compile_re2(self.candidate)

    def speak_for(self, text: bytes, start: int) -> bool:
        """Whether one of them stands before what begins at `start`."""
        before = text[max(0, start - REACH) : start]
        return self._near.search(_behind_last_end(before)) is not None

    def find_near(self, text: bytes, find: Callable[[bytes], list[tuple[int, int]]]) -> list[tuple[int, int]]:
        """What `find` finds in the cells and lines, from the first word that speaks on, in which one speaks."""
        found: list[tuple[int, int]] = []
        at = 0
        while word := self._leap.search(text, at):
            end = _CELL_ENDS.search(text, word.start() + 2)
            at = end.start() if end is not None else len(text)
            start = word.start()
            found += [(start + first, start + last) for first, last in find(text[start:at])]
        return found


def _behind_last_end(before: bytes) -> bytes:
    last = 0
    for end in _ENDS.finditer(before):
        last = end.end()
    return before[last:]


@lru_cache(maxsize=1024)
def tokens_of(column: str) -> tuple[str, ...]:
    """`customerSSN_no` is `customer`, `ssn`, `no`."""
    return tuple(token.lower() for token in _TOKENS.findall(column[:256]))


def spelled_out(tokens: tuple[str, ...]) -> bytes:
    """What the words that name a column are looked for in: its tokens apart, and glued together."""
    return f" {' '.join(tokens)} \n{''.join(tokens)}".encode()


def names_another_thing(tokens: tuple[str, ...]) -> bool:
    return not _OTHER_THINGS.isdisjoint(tokens)


ROUNDS = 3
THRESHOLD = 0.5
# Scores from here on speak for themselves: a column's name does not lower them, since whoever writes a statement
# chooses the names in its answer.
FIRM = 0.6
# Stands in the place of a form that is not asked by its candidate, and is found nowhere.
_NOTHING = rb"[^\x00-\xff]"
_SEPARATORS = b",;/| &"


@dataclass(frozen=True, slots=True)
class CandidateForm:
    """A form of a set, and how sure its finds are: `alone`, and `told` where a word speaks for them."""

    kind: str
    form: ValueForm
    words: Words | None
    alone: float
    told: float


def compile_column(value: bytes) -> Searcher:
    """Matches texts that are a value each, with a zero byte between any two."""
    return compile_linear(rb"(?:(?:" + value + rb")\x00)*(?:" + value + rb")")


class FormCatalogue:
    """What is costly to prepare and the same for all columns: the forms, and one quick look for all of them."""

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
                f"masking of {', '.join(sorted(missing))} needs a language model that knows them, and none "
                "is configured here; install postern[presidio] and set masking_language_model, or "
                "take them out of the types"
            )
        self.threshold = threshold
        self.looked: list[CandidateForm] = []
        for detector in ORDER:
            if detector.type in types:
                for form in detector.forms:
                    self._add(detector.type, form, _WORDS.get(detector.type))
        for one in custom:
            self._add(one.name, custom_form(one), None)
        if language is not None:
            for kind, form in model_forms(language, types & MODEL_TYPES, threshold):
                self._add(kind, form, None)
        self.which = compile_set([self._candidate(one) for one in self.looked])
        self.asked = tuple((index, one.form.quick) for index, one in enumerate(self.looked) if one.form.quick)
        # A text that is one value from end to end is replaced as such only where no other kind could be in its way.
        sure = {one.kind for one in self.looked if one.alone >= threshold}
        wholes = [(d.type, d.whole) for d in ORDER if d.whole and d.type in sure & types]
        self.whole = compile_set([whole.value for _, whole in wholes], whole=True) if wholes else None
        self.columns = tuple((kind, compile_column(whole.value).fullmatch, whole.mask) for kind, whole in wholes)

    def _add(self, kind: str, form: ValueForm, words: Words | None) -> None:
        told = min(1.0, form.score + BOOST) if words else form.score
        if told >= self.threshold:
            self.looked.append(CandidateForm(kind, form, words, form.score, told))

    def _candidate(self, one: CandidateForm) -> bytes:
        if one.form.quick is not None:
            return _NOTHING
        return one.form.candidate if one.alone >= self.threshold or one.words is None else one.words.candidate


class Detectors:
    """Those for some kinds of information in one column, or in texts of no column, with one quick look for all."""

    __slots__ = ("_catalogue", "_extra", "_looked", "_told", "types")

    def __init__(self, catalogue: FormCatalogue, types: frozenset[str], told: frozenset[str], doubted: bool) -> None:
        self.types = types
        self._catalogue = catalogue
        self._told = told
        self._looked = [_in_doubt(one, told) if doubted else one for one in catalogue.looked]
        # What the column's name makes worth a look, although no word stands in the text.
        self._extra = [
            (index, compile_candidate(one.form.candidate).search)
            for index, one in enumerate(catalogue.looked)
            if one.kind in told and one.alone < catalogue.threshold
        ]

    def worth(self, text: bytes) -> list[int]:
        """The places of the forms that may find something in the text; none where there is nothing to find."""
        catalogue = self._catalogue
        known = catalogue.which(text)
        if not self._extra and not catalogue.asked:
            return sorted(known) if known else []
        worth = set(known or ())
        worth.update(index for index, search in self._extra if search(text))
        worth.update(index for index, quick in catalogue.asked if quick(text))
        return sorted(worth)

    def find(self, text: bytes) -> list[Found]:
        """Every value of the kinds in the text, by place; no two of them overlap."""
        found: list[tuple[int, int, float, int]] = []
        for index in self.worth(text):
            for span, score in self._spans(index, text):
                found.append((*span, score, index))
        return [Found(str(self._looked[index].kind), start, end, score) for start, end, score, index in _apart(found)]

    def mask_column(self, texts: Sequence[bytes], joined: bytes) -> tuple[str, list[bytes]] | None:
        """What replaces each of the texts, when every one is a value of one kind and nothing else.

        `joined` is the texts with a zero byte between any two; none of them holds one.
        """
        if self._catalogue.whole is None:
            return None
        like_first = self._catalogue.whole(texts[0])
        if like_first is None:
            return None
        kind, fullmatch, mask = self._catalogue.columns[like_first[0]]
        masked = mask(texts) if fullmatch(joined) else None
        if masked is None:
            return None
        # What the customer looks for may be in the replacement, too, where a search would find it.
        if self._catalogue.asked:
            after = b"\x00".join(masked)
            if any(quick(after) for _, quick in self._catalogue.asked):
                return None
        return kind, masked

    def mask(self, text: bytes, worth: Sequence[int] | None = None) -> Iterator[tuple[str, MaskedText]]:
        """What each form of each kind did to what the ones before it left; only those that found something. `worth` is
        what `worth` said of the text, where that is known.

        Where one value stood in the other's way, taking it away shows the other: so it looks again.
        """
        if worth is None:
            worth = self.worth(text)
        for _ in range(ROUNDS):
            found = False
            for index in worth:
                if found and not self._may_find(index, text):  # most candidates of others were in what is masked now
                    continue
                masked = self._mask_form(index, text)
                if masked.hits:
                    found = True
                    text = masked.text
                    yield self._looked[index].kind, masked
            if not found:
                return
            worth = self.worth(text)

    def _may_find(self, index: int, text: bytes) -> bool:
        """Whether one form may find something in the text."""
        form = self._looked[index].form
        if form.quick is not None:
            return form.quick(text)
        return compile_candidate(form.candidate).search(text) is not None

    def _mask_form(self, index: int, text: bytes) -> MaskedText:
        one = self._looked[index]
        threshold = self._catalogue.threshold
        if one.alone >= threshold or (one.kind in self._told and one.told >= threshold):
            return one.form.mask(text)
        spans = [span for span, _ in self._spans(index, text)]
        if not spans:
            return MaskedText(text)
        return _replaced(text, spans, one.form)

    def _spans(self, index: int, text: bytes) -> Iterator[tuple[Span, float]]:
        """Where the form's values are whose score reaches the threshold."""
        one = self._looked[index]
        threshold = self._catalogue.threshold
        told_by_name = one.kind in self._told
        behind = -1  # where the last value that a word spoke for ends: `SSNs 1…, 2…`
        if told_by_name or one.words is None or one.alone >= threshold:
            values = one.form.find(text)
        else:
            values = one.words.find_near(text, one.form.find)
        for start, end in values:
            told = told_by_name
            if not told and one.words is not None and one.alone < 1:
                told = one.words.speak_for(text, start) or (behind >= 0 and _in_a_list(text[behind:start]))
                behind = end if told else -1
            score = one.told if told else one.alone
            if score >= threshold:
                yield (start, end), score


def _in_a_list(between: bytes) -> bool:
    return 0 < len(between) <= 3 and not between.strip(_SEPARATORS)


def _in_doubt(one: CandidateForm, told: frozenset[str]) -> CandidateForm:
    if one.alone >= FIRM or one.kind in told:
        return one
    return CandidateForm(one.kind, one.form, one.words, one.alone - DOUBT, one.told - DOUBT)


def _replaced(text: bytes, spans: list[Span], form: ValueForm) -> MaskedText:
    """As the form would replace each value if it stood alone."""
    parts: list[bytes] = []
    kept = size = 0
    for start, end in spans:
        parts += (text[kept:start], form.mask(text[start:end]).text)
        kept = end
        size += end - start
    parts.append(text[kept:])
    return MaskedText(b"".join(parts), len(spans), size)


def _apart(found: list[tuple[int, int, float, int]]) -> list[tuple[int, int, float, int]]:
    """Without overlaps: what holds another stays, of two that hold the same bytes the surer one."""
    kept: list[tuple[int, int, float, int]] = []
    for one in sorted(found, key=lambda one: (one[0], -one[1], -one[2], one[3])):
        if not kept or one[0] >= kept[-1][1]:
            kept.append(one)
        elif one[1] > kept[-1][1] and one[2] > kept[-1][2]:
            kept[-1] = one
    return kept


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
    told: frozenset[str],
    doubted: bool,
) -> Detectors:
    return Detectors(_catalogue_for(types, custom, threshold, language), types, told, doubted)


@lru_cache(maxsize=2048)
def _hints(types: frozenset[str], tokens: tuple[str, ...]) -> tuple[frozenset[str], bool]:
    """The kinds that a column's name speaks for, and whether it speaks for something else altogether."""
    told = types.intersection(_NAMED[place] for place in _which_named(spelled_out(tokens)) or ())
    return told, not told and names_another_thing(tokens)


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
    """Shared by all sessions that mask the same kinds; `types` are names of InfoType, `column` the column's name.
    `language` is the process's own model when left out, if it has one.

    Raises Unavailable for kinds that need a language model which is not there, Invalid for a custom type that cannot
    be looked for.
    """
    names: frozenset[str] = frozenset(types)
    language = language or provided()
    told, doubted = _hints(names, tokens_of(column)) if column else (frozenset(), False)
    return _for_hints(names, custom, threshold, language, told, doubted)
