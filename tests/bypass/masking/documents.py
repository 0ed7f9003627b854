"""Two databases of documents that differ only in masked fields, to find what an answer shows of them.

A command runs on both. Where a field of the answers differs, lineage must know that it shows a masked field, or the
answer must be denied; and all documents must have the same fields, unless the answer is denied.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from bson import json_util
from tests.bypass.masking.attacks_mongodb import _VIEWS
from tests.bypass.masking.test_field_leaks import decide

Command = dict[str, Any]
Fields = dict[str, list[str]]

# Number, salary, address and card of each person, in each database.
SECRETS = (
    (("123-45-6789", 83412, "ann@x.org", "4111"), ("923-45-6789", 12, "ben@y.net", "5111"),
     ("523-00-1111", 500, "cat@z.de", "6111")),
    (("323-45-0000", 13, "zoe@xx.org", "9111"), ("623-45-67", 77412, "b@y.com", "8111"),
     ("023-00-11112", 600, "mat@zz.de", "711")),
)  # fmt: skip
_GUESSES = ("123-45-6789", "323-45-0000", "ann@x.org", "zoe@xx.org")


def fill(database: Any, secrets: tuple[tuple[str, int, str, str], ...]) -> None:
    """Create the collections and views in a database of PyMongo."""
    database.client.drop_database(database.name)
    for number, (ssn, salary, email, card) in enumerate(secrets):
        database.people.insert_one(
            {
                "_id": number, "name": ("Ann", "Ben", "Cat")[number], "ssn": ssn, "salary": salary, "age": number * 3,
                "contact": {"email": email, "city": "Bonn"}, "note": "n", "tags": ["p", "q"],
                "cards": [{"number": card, "kind": "a"}, {"number": f"{card}1", "kind": "b"}],
            }
        )  # fmt: skip
    database.orders.insert_many([{"_id": number, "person": number % 3, "total": number * 5} for number in range(4)])
    database.guesses.insert_many([{"_id": number, "value": value} for number, value in enumerate(_GUESSES)])
    for name, definition in _VIEWS.items():
        if name != "v_loop":
            view = json.loads(definition)
            database.command({"create": name, "viewOn": view["viewOn"], "pipeline": view["pipeline"]})


def run(database: Any, text: str) -> list[Any]:
    """Run a command, and return the documents of its answer."""
    command = {name: value for name, value in json_util.loads(text).items() if name != "$db"}
    reply = database.command(command)
    if "cursor" in reply:
        return list(reply["cursor"]["firstBatch"])
    if "values" in reply:
        return [{command["key"]: value} for value in reply["values"]]
    return [reply.get("value") or {}]


def fields_of(value: object, path: str = "", found: Fields | None = None) -> Fields:
    """Return the values at each path; arrays are transparent."""
    found = {} if found is None else found
    if isinstance(value, Mapping):
        for name, inner in value.items():
            fields_of(inner, f"{path}.{name}" if path else name, found)
    elif isinstance(value, list):
        for inner in value:
            fields_of(inner, path, found)
    else:
        found.setdefault(path, []).append(repr(value))
    return found


def find_leak(text: str, answers: tuple[list[Any], list[Any]]) -> str:
    """Return what the answers to a command show of masked fields; empty if nothing."""
    one, other = (fields_of(documents) for documents in answers)
    columns = tuple(sorted({*one, *other}))
    decided, is_denied = decide((text,), columns)
    if is_denied or decided.refused is not None:
        return ""
    for column, choice in zip(columns, decided.chosen, strict=True):
        if choice is None and one.get(column) != other.get(column):
            return f"{column} is shown: {text}"
        if choice is not None and not choice.plain and _nulls(one, column) != _nulls(other, column):
            return f"nulls in {column} are shown: {text}"  # null stays null in documents
    shapes = [sorted(str(_shape_of(document)) for document in documents) for documents in answers]
    return "" if shapes[0] == shapes[1] else f"the shape differs: {text}"


def _nulls(fields: Fields, column: str) -> list[bool]:
    return [value == "None" for value in fields.get(column, ())]


def _shape_of(document: object) -> list[tuple[str, int]]:
    return sorted((path, len(values)) for path, values in fields_of(document).items())


_PATHS = ("$ssn", "$name", "$salary", "$contact", "$contact.email", "$contact.city", "$cards", "$cards.number",
          "$cards.kind", "$note", "$tags", "$age", "$$ROOT", "$x", "$y", "$x.k", "$x.v", "$y.z")  # fmt: skip
_TEXTS = ("$ssn", "$name", "$contact.email")
_CONSTANTS: tuple[Any, ...] = (1, 0, "5", "a", True, None, {"$literal": {"email": "m"}}, ["1", "a"])


class RandomPipelines:
    """Pipelines of valid stages without filters, joins, groups and orders by fields, whose channels are documented."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def make(self) -> str:
        stages = [self._stage() for _ in range(self._random.choice((1, 1, 2, 3)))]
        return json.dumps({"aggregate": "people", "pipeline": stages, "cursor": {}, "$db": "scratch"})

    def _pick(self, *options: Any) -> Any:
        return self._random.choice(options)

    def _stage(self) -> Command:
        field = self._pick("x", "y", "x.k", "note", "ssn", "contact.city", "y.z")
        make = self._expression
        stages: tuple[Callable[[], Command], ...] = (
            lambda: {"$set": {field: make(3)}},
            lambda: {"$project": {field: make(3), "name": 1}},
            lambda: {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"x": make(3)}]}},
            lambda: {"$replaceWith": {"x": make(3), "ssn": "$ssn"}},
            lambda: {
                "$group": {"_id": None, "x": {self._pick("$push", "$first", "$last"): make(2)}, "y": {"$push": make(1)}}
            },
            lambda: {"$facet": {"x": [{"$set": {"y": make(2)}}]}},
            lambda: {
                "$unionWith": {"coll": "guesses", "pipeline": [{"$project": {"x": make(1), "ssn": {"$literal": "q"}}}]}
            },
            lambda: {"$unwind": "$cards"},
            lambda: {"$unset": self._pick("ssn", "contact", "x")},
        )
        return self._random.choice(stages)()

    def _expression(self, depth: int, variables: tuple[str, ...] = ()) -> Any:
        if depth <= 0 or self._random.random() < 0.25:
            names = [*_PATHS, *(f"$${name}" for name in variables * 3), *(f"$${name}.number" for name in variables)]
            return self._random.choice(names) if self._random.random() < 0.8 else self._pick(*_CONSTANTS)
        return self._operator(depth, variables)

    def _operator(self, depth: int, variables: tuple[str, ...]) -> Any:
        def make(*bound: str) -> Any:
            return self._expression(depth - 1, variables + bound)

        pick = self._pick
        text, array = pick(*_TEXTS), pick("$cards", "$tags", ["$ssn"], [1, 2])
        length = {"$strLenCP": text}

        def document() -> Any:
            return pick("$$ROOT", "$contact", None) or {"p": make()}

        def last() -> Any:
            return pick({"$concatArrays": [["$$this"], ["$ssn"]]}, None) or make("this", "value")

        makers: tuple[Callable[[], Any], ...] = (
            lambda: {"$cond": [make(), make(), pick(make(), "$$REMOVE")]},
            lambda: {"$ifNull": [make(), make()]},
            lambda: {"$switch": {"branches": [{"case": make(), "then": make()}], "default": make()}},
            lambda: {pick("$eq", "$gt", "$cmp", "$and", "$or", "$max", "$min"): [make(), make()]},
            lambda: {pick("$not", "$isArray"): [make()]},
            lambda: {"$type": make()},
            lambda: {"$concat": [text, "x"]},
            lambda: {pick("$toUpper", "$strLenCP"): text},
            lambda: {"$toString": pick("$salary", "$ssn", "$age")},
            lambda: {"$add": [pick("$salary", "$age"), 1]},
            lambda: {"$map": {"input": array, "as": "m", "in": make("m")}},
            lambda: {"$filter": {"input": array, "as": "m", "cond": make("m")}},
            lambda: {"$reduce": {"input": array, "initialValue": pick(*_CONSTANTS), "in": last()}},
            lambda: [make(), make()],
            lambda: {"p": make(), "q": make()},
            lambda: {pick("$concatArrays", "$setUnion", "$setIntersection", "$setDifference"): [[make()], [make()]]},
            lambda: {"$zip": {"inputs": [[make()], [make()]]}},
            lambda: {"$arrayElemAt": [pick("$cards", "$tags", [make(), make()]), pick(0, 1, length)]},
            lambda: {pick("$first", "$last", "$reverseArray"): [[make(), make()]]},
            lambda: {"$slice": [[make(), make()], 1]},
            lambda: {"$size": pick([[make()]], {"$setUnion": [[make()], [make()]]})},
            lambda: {"$in": [make(), [make(), make()]]},
            lambda: {"$objectToArray": document()},
            lambda: {"$arrayToObject": [[["p", make()]]]},
            lambda: {"$mergeObjects": [document(), {"p": make()}]},
            lambda: {"$getField": {"field": pick("ssn", "email", "p", "number"), "input": document()}},
            lambda: {"$setField": {"field": pick("p", "ssn"), "input": document(), "value": make()}},
            lambda: {"$let": {"vars": {"w": make()}, "in": make("w")}},
            lambda: {"$let": {"vars": {"CURRENT": pick("$contact", "$$ROOT")}, "in": make()}},
            lambda: {"$range": [0, pick(2, length)]},
            lambda: {"$split": [text, "1"]},
            lambda: {"$regexFindAll": {"input": text, "regex": "[15n]"}},
            lambda: {"$bsonSize": pick("$$ROOT", "$contact")},
        )
        return self._random.choice(makers)()
