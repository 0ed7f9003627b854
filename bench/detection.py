"""Which values the detectors find, and how fast, side by side with Presidio's pattern recognisers.

    python -m bench.detection                  # needs `pip install presidio-analyzer` for the second column
    python -m bench.detection --of-each 200

Every text of the labelled set (bench/labelled) is given to both engines. A value counts as found where a find of its
kind covers at least half of it; a find of a kind where no value of that kind is counts against precision. `told` is
the recall where a column's name, a JSON key or a word tells the kind, `alone` where nothing does. Presidio's
recognisers get the same texts, without a language model and so without its context words, at the same threshold and,
in the last columns, with none; a total of the kinds that it has a recogniser for stands beside that of all. It has no
way to search many texts as one. The telling names and words of the set are chosen by those who chose the detectors'
words, so `told` says that the two agree, not how people name their columns everywhere. Times are the process's own
(user and system), so that others on the machine count little.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import click
from bench.labelled.maker import Maker
from bench.labelled.texts import Sample, labelled

from postern.domain.rules.masking import DEFAULT_TYPES, MODEL_TYPES, PERSONAL_TYPES, InfoType, info_type
from postern.inspection.masking.detector import Found
from postern.inspection.masking.detectors import detectors_for

FindAll = Callable[[Sample], Sequence[Found]]
# Personal types are found by names of columns and labels rather than by their values, so no recall tells anything.
ALL: frozenset[str] = frozenset(InfoType) - MODEL_TYPES - PERSONAL_TYPES


@dataclass(slots=True)
class Score:
    """Counts of one kind."""

    told: int = 0
    told_found: int = 0
    alone: int = 0
    alone_found: int = 0
    right: int = 0
    wrong: int = 0

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall_told(self) -> float:
        return self.told_found / self.told if self.told else 1.0

    @property
    def recall_alone(self) -> float:
        return self.alone_found / self.alone if self.alone else 1.0

    @property
    def recall(self) -> float:
        return (self.told_found + self.alone_found) / (self.told + self.alone) if self.told + self.alone else 1.0


@dataclass(slots=True)
class Result:
    scores: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))
    false_alarms: int = 0  # texts without any value in which something was found
    clean: int = 0
    seconds: float = 0.0

    def total(self, kinds: frozenset[str] = ALL) -> Score:
        total = Score()
        for score in (score for kind, score in self.scores.items() if kind in kinds):
            for name in Score.__slots__:
                setattr(total, name, getattr(total, name) + getattr(score, name))
        return total


def judge(samples: Sequence[Sample], find: FindAll) -> Result:
    """What an engine makes of the samples; timed, after a few that warm it up."""
    for sample in samples[:100]:
        find(sample)
    start = time.process_time()
    finds = [find(sample) for sample in samples]
    result = Result(seconds=time.process_time() - start)
    for sample, found in zip(samples, finds, strict=True):
        hit = False
        for one in found:
            if one.type == sample.kind and _covers(one, sample):
                hit = True
                result.scores[one.type].right += 1
            else:
                result.scores[one.type].wrong += 1
        if sample.kind is None:
            result.clean += 1
            result.false_alarms += bool(found)
            continue
        score = result.scores[sample.kind]
        if sample.told:
            score.told += 1
            score.told_found += hit
        else:
            score.alone += 1
            score.alone_found += hit
    return result


def _covers(found: Found, sample: Sample) -> bool:
    common = min(found.end, sample.end) - max(found.start, sample.start)
    return common * 2 >= sample.end - sample.start


def postern(threshold: float = 0.5) -> FindAll:
    return lambda sample: detectors_for(ALL, threshold=threshold, column=sample.column).find(sample.text)


def presidio_kinds() -> frozenset[str]:
    """Of ours, those that one of its recognisers is for."""
    kinds = (info_type(name) for recogniser in _recognisers() for name in recogniser.supported_entities)
    return frozenset(kind for kind in kinds if kind is not None) & ALL


@lru_cache(maxsize=1)
def _recognisers() -> list[Any]:
    """Presidio's predefined pattern recognisers, all of them; none where it is not installed."""
    try:
        import tldextract
        from presidio_analyzer import PatternRecognizer, predefined_recognizers
    except ImportError:
        return []
    # It would fetch the list of public suffixes; the one that it brings is enough.
    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    recognisers = []
    for name in predefined_recognizers.__all__:
        made = getattr(predefined_recognizers, name)
        if isinstance(made, type) and (issubclass(made, PatternRecognizer) or name == "PhoneRecognizer"):
            recognisers.append(made())
    return recognisers


def presidio(threshold: float) -> FindAll | None:
    """None where it is not installed."""
    recognisers = _recognisers()
    if not recognisers:
        return None

    def find(sample: Sample) -> list[Found]:
        text = sample.text.decode()
        found = []
        for recogniser in recognisers:
            for one in recogniser.analyze(text, recogniser.supported_entities, None) or ():
                kind = info_type(one.entity_type)
                if kind is not None and one.score >= threshold:
                    start = len(text[: one.start].encode())
                    found.append(Found(kind, start, start + len(text[one.start : one.end].encode()), one.score))
        return _distinct(found)

    return find


def _distinct(found: list[Found]) -> list[Found]:
    """Without overlapping finds of one kind, as its analyser leaves them out."""
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: (-one.score, one.start)):
        if not any(one.type == other.type and one.start < other.end and other.start < one.end for other in kept):
            kept.append(one)
    return kept


@click.command(help=__doc__)
@click.option("--seed", default=7)
@click.option("--of-each", default=60, help="Samples of each kind.")
@click.option("--negatives", default=120, help="Samples of each thing that only looks like a value.")
def main(seed: int, of_each: int, negatives: int) -> None:
    samples = labelled(seed, of_each, negatives)
    size = sum(len(sample.text) for sample in samples)
    engines = {"postern": postern(), "presidio": presidio(0.5), "presidio, no threshold": presidio(0.0)}
    results = {name: judge(samples, find) for name, find in engines.items() if find is not None}
    print(f"{len(samples)} texts, {size / 1e3:.0f} kB, {len(ALL)} kinds; precision, recall told, recall alone")
    print(f"{'':28}" + "".join(f"{name:>26}" for name in results))
    for kind in sorted(ALL):
        print(f"{kind:28}" + "".join(_row(result.scores[kind]) for result in results.values()))
    print(f"{'all kinds':28}" + "".join(_row(result.total()) for result in results.values()))
    theirs = presidio_kinds()
    if theirs:
        name = f"the {len(theirs)} that presidio knows"
        print(f"{name:28}" + "".join(_row(result.total(theirs)) for result in results.values()))
    alarms = (f"{result.false_alarms} of {result.clean}" for result in results.values())
    print(f"{'false alarms in clean texts':28}" + "".join(f"{text:>26}" for text in alarms))
    speeds = (f"{size / result.seconds / 1e6:.2f}" for result in results.values())
    print(f"{'MB/s, one text at a time':28}" + "".join(f"{text:>26}" for text in speeds))
    print(f"{'MB/s, by column, joined':28}{_speed_by_column(samples):>26.2f}")
    for name, texts in _blocks(samples).items():
        joined = b"\x00".join(texts)
        every, default = _speed(ALL, joined), _speed(DEFAULT_TYPES, joined)
        print(f"MB/s, {name:38}{every:>10.1f}   {default:>8.1f} (default kinds)")


def _blocks(samples: Sequence[Sample]) -> dict[str, list[bytes]]:
    """64 KiB of cells each, as one read of a result brings them: joined, as the interceptor joins a column's."""
    words = Maker(1)
    clean = [str(words.fakers[0].sentence(nb_words=8)).encode() for _ in range(2000)]
    return {
        "blocks of sentences": _block(clean),
        "blocks of what only looks like values": _block([one.text for one in samples if one.kind is None]),
        "blocks of short numbers": _block([words.digits(9).encode() for _ in range(8000)]),
        "blocks of values of all kinds": _block([one.text for one in samples if one.kind is not None]),
    }


def _block(texts: list[bytes]) -> list[bytes]:
    kept, size = [], 0
    for text in texts:
        if size > 65536:
            break
        kept.append(text)
        size += len(text)
    return kept


def _speed_by_column(samples: Sequence[Sample]) -> float:
    """MB/s where the texts of each column are searched as one, as the interceptor does; the best of three."""
    columns: dict[str, list[bytes]] = defaultdict(list)
    for sample in samples:
        columns[sample.column].append(sample.text)
    joined = {name: b"\x00".join(texts) for name, texts in columns.items()}
    times = []
    for _ in range(4):
        start = time.process_time()
        for name, text in joined.items():
            detectors_for(ALL, column=name).find(text)
        times.append(time.process_time() - start)
    return sum(map(len, joined.values())) / min(times[1:]) / 1e6


def _speed(types: frozenset[str] | frozenset[InfoType], text: bytes) -> float:
    """MB/s: the best of five, after one that warms up."""
    detectors = detectors_for(types)
    detectors.find(text)
    times = []
    for _ in range(5):
        start = time.process_time()
        detectors.find(text)
        times.append(time.process_time() - start)
    return len(text) / max(min(times), 1e-6) / 1e6


def _row(score: Score) -> str:
    return f"{score.precision:>12.3f}{score.recall_told:>7.2f}{score.recall_alone:>7.2f}"


if __name__ == "__main__":
    main()
