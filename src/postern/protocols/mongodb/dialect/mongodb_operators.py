"""Names of operators that servers 4.4 to 8.0 document, by where they can stand.

An operator that is not listed is unknown, and so is a statement that uses it.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(f"${word}" for word in text.split())


# Operators whose result is a number, a text, a boolean, a date, or null. They show nothing of a document or an array
# in their arguments besides an error, its size or its type.
SCALAR_EXPRESSIONS: Final = _words(
    """
    abs add ceil divide exp floor ln log log10 mod multiply pow round sqrt subtract trunc
    bitAnd bitNot bitOr bitXor and or not allElementsTrue anyElementTrue isArray isNumber size type
    binarySize strLenBytes strLenCP
    dateAdd dateDiff dateFromParts dateFromString dateSubtract dateToString dateTrunc dayOfMonth dayOfWeek dayOfYear
    hour isoDayOfWeek isoWeek isoWeekYear millisecond minute month second week year tsSecond tsIncrement
    concat indexOfBytes indexOfCP ltrim rtrim trim regexMatch replaceOne replaceAll strcasecmp substr substrBytes
    substrCP toLower toUpper
    toBool toDate toDecimal toDouble toInt toLong toObjectId toString toUUID
    acos acosh asin asinh atan atan2 atanh cos cosh degreesToRadians radiansToDegrees sin sinh tan tanh
    avg stdDevPop stdDevSamp sum median rand sampleRate
    """
)
# Of these, the ones whose result is never null, whatever their arguments are.
NEVER_NULL: Final = _words(
    """
    and or not allElementsTrue anyElementTrue isArray isNumber type regexMatch size sum strcasecmp substr substrBytes
    substrCP toLower toUpper rand sampleRate
    """
)
# Operators with a scalar result that compare their arguments, whole documents included.
COMPARISONS: Final = _words("cmp eq gt gte lt lte ne in indexOfArray setEquals setIsSubset")
# Operators with a scalar result that depends on all of a document.
WHOLE_EXPRESSIONS: Final = _words("bsonSize toHashedIndexKey")
# Operators that return arguments, elements of them, or new documents and arrays.
OTHER_EXPRESSIONS: Final = _words(
    """
    arrayElemAt arrayToObject concatArrays filter first firstN last lastN map max maxN min minN objectToArray range
    reduce reverseArray slice sortArray zip cond ifNull switch convert const literal getField mergeObjects setField
    unsetField setDifference setIntersection setUnion regexFind regexFindAll split meta let dateToParts percentile
    """
)
LITERALS: Final = _words("literal const")
CODE: Final = _words("where function accumulator _internalJsEmit _internalJsReduce")
EXPRESSIONS: Final = SCALAR_EXPRESSIONS | COMPARISONS | WHOLE_EXPRESSIONS | OTHER_EXPRESSIONS

ACCUMULATORS: Final = _words(
    """
    addToSet avg bottom bottomN count first firstN last lastN max maxN median mergeObjects min minN percentile push
    stdDevPop stdDevSamp sum top topN concatArrays setUnion
    """
)
# Accumulators that can return more than one value of a group.
COLLECTING: Final = _words("addToSet bottomN firstN lastN maxN mergeObjects minN push topN concatArrays setUnion")
WINDOW_FUNCTIONS: Final = ACCUMULATORS | _words(
    "covariancePop covarianceSamp denseRank derivative documentNumber expMovingAvg integral linearFill locf rank shift"
)

QUERY_CONNECTORS: Final = _words("and or nor")
QUERY_WHOLE: Final = _words("comment text jsonSchema sampleRate alwaysTrue alwaysFalse")
QUERY_PREDICATES: Final = _words(
    """
    eq gt gte in lt lte ne nin exists type mod regex options size bitsAllClear bitsAllSet bitsAnyClear bitsAnySet
    geoIntersects geoWithin near nearSphere within maxDistance minDistance uniqueDocs ref id db comment
    """
)

UPDATES: Final = _words(
    "set unset inc mul rename min max currentDate setOnInsert push pushAll pull pullAll addToSet pop bit"
)

# Variables that hold no data of documents.
CONSTANT_VARIABLES: Final = frozenset({"NOW", "CLUSTER_TIME", "USER_ROLES"})
ACTION_VARIABLES: Final = frozenset({"DESCEND", "PRUNE", "KEEP"})

# Stages that only read, and pass documents on, change or combine them.
STAGES: Final = _words(
    """
    addFields bucket bucketAuto count densify documents facet fill geoNear graphLookup group limit lookup match project
    redact replaceRoot replaceWith sample set setWindowFields skip sort sortByCount unionWith unset unwind
    search searchMeta vectorSearch changeStream changeStreamSplitLargeEvent
    collStats indexStats listSearchIndexes listLocalSessions
    """
)
# Stages that show the server, or what other users do.
ADMIN_STAGES: Final = _words(
    """
    currentOp listSessions listSampledQueries queryStats shardedDataDistribution operationMetrics querySettings
    listClusterCatalog planCacheStats
    """
)
WRITING_STAGES: Final = _words("out merge")
