"""More random pipelines: with conversions, numbers of several types, accumulators and stages that `RandomPipelines` does
not make."""

from __future__ import annotations

from typing import Any

from tests.bypass.masking.documents import Command, RandomPipelines

_NUMBERS = ("$salary", "$age", "$flag", 1, 2.5, 2_000_000_000, {"$numberDecimal": "1.5"}, {"$numberLong": "7"})


class WiderPipelines(RandomPipelines):
    def _stage(self) -> Command:
        make = self._expression
        field = self._pick("x", "y", "note", "contact.city")
        stages: tuple[Command, ...] = (
            {"$group": {"_id": "$_id", "x": {self._pick("$max", "$min", "$sum", "$avg", "$addToSet"): make(2)}}},
            {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {field: {self._pick("$sum", "$push", "$last"): make(1)}}}},
            {"$fill": {"sortBy": {"_id": 1}, "output": {field: {"value": make(1)}}}},
            {"$bucketAuto": {"groupBy": "$_id", "buckets": 2, "output": {"x": {"$push": make(1)}}}},
            {"$replaceRoot": {"newRoot": {"a": make(2), "b": {"c": make(1)}}}},
            {"$lookup": {"from": "orders", "let": {"v": make(1)}, "pipeline": [{"$set": {"z": self._pick("$$v", ["$$v"])}}], "as": field}},
            {"$redact": "$$KEEP"},
        )  # fmt: skip
        return self._random.choice(stages) if self._random.random() < 0.5 else super()._stage()

    def _operator(self, depth: int, variables: tuple[str, ...]) -> Any:
        if self._random.random() < 0.5:
            return super()._operator(depth, variables)

        def make() -> Any:
            return self._expression(depth - 1, variables)

        pick = self._pick
        number, other = pick(*_NUMBERS), pick(*_NUMBERS)
        makers: tuple[Any, ...] = (
            {pick("$add", "$multiply", "$subtract", "$divide", "$mod", "$pow"): [number, other]},
            {pick("$abs", "$ceil", "$floor", "$sqrt", "$ln", "$trunc", "$toLong", "$toDouble", "$toDecimal"): number},
            {"$convert": {"input": make(), "to": pick("int", "string", "bool"), "onError": make(), "onNull": pick(1, "a", None)}},
            {pick("$sum", "$avg", "$max", "$min"): [number, make()]},
            {"$cond": [make(), number, other]},
            {"$ifNull": [pick("$nothing", make()), number]},
            {"$arrayElemAt": [{"$split": ["$ssn", pick("-", "5")]}, pick(0, 1, 2)]},
            {pick("$first", "$last"): {"$filter": {"input": pick("$tags", [1]), "cond": make()}}},
            {pick("$maxN", "$minN", "$firstN", "$lastN"): {"input": [make(), make()], "n": 1}},
            {"$sortArray": {"input": [make(), make()], "sortBy": 1}},
            {"$concat": [{"$cond": [make(), "a", pick("b", None, "$nothing")]}, "c"]},
            {"$strcasecmp": ["$ssn", "5"]},
            {pick("$allElementsTrue", "$anyElementTrue"): [[make()]]},
            {"$indexOfArray": [[make(), "a"], make()]},
            {"$isNumber": make()},
            {"$dateFromParts": {"year": 2000, "month": number}},
            {"$toDate": {"$toLong": number}},
            {"$reduce": {"input": [number, other], "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}},
            {"$zip": {"inputs": [[make()], [make()]], "useLongestLength": True, "defaults": [make(), 0]}},
            {"$unsetField": {"field": "ssn", "input": "$$ROOT"}},
            {"$trim": {"input": "$ssn", "chars": pick("1", "-")}},
            {"$regexFind": {"input": "$ssn", "regex": "[5]"}},
            {"$toObjectId": "$note"},
            {"$setIsSubset": [[make()], [make(), make()]]},
        )  # fmt: skip
        return self._random.choice(makers)
