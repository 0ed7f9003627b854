"""Commands of servers 4.4 to 8.0, their effects, and what their first value names.

Commands with parts that decide more, such as filters and pipelines, have functions in `mongodb_command_effects`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from postern.domain.rules.statement import Effect


class CommandTarget(Enum):
    """What the first value of a command names."""

    COLLECTION = "collection"
    DATABASE = "database"  # the command is about the whole database, and its value says nothing
    NAMESPACE = "namespace"  # database and collection in one text
    DATABASE_NAME = "database name"
    EVERYTHING = "everything"
    NOTHING = "nothing"


_R, _W, _D, _G = Effect.READ, Effect.WRITE, Effect.DDL, Effect.GRANT
_S, _A = Effect.SESSION, Effect.ADMIN

# Other spellings that servers accept.
ALIASES: Final[Mapping[str, str]] = {
    "findandmodify": "findAndModify",
    "mapreduce": "mapReduce",
    "deleteIndexes": "dropIndexes",
    "ismaster": "isMaster",
    "buildinfo": "buildInfo",
    "collstats": "collStats",
    "dbstats": "dbStats",
    "dbhash": "dbHash",
    "filemd5": "fileMD5",
    "datasize": "dataSize",
    "getlasterror": "getLastError",
    "$eval": "eval",
}

_LISTED: Final[Mapping[tuple[CommandTarget, tuple[Effect, ...]], str]] = {
    (CommandTarget.COLLECTION, (_R,)): "listIndexes collStats validate planCacheListFilters geoSearch analyzeShardKey",
    (CommandTarget.DATABASE, (_R,)): "listCollections dbStats dbHash",
    (CommandTarget.NAMESPACE, (_R,)): "dataSize getShardVersion checkShardingIndex",
    (CommandTarget.NOTHING, (_R,)): "listDatabases listCommands availableQueryOptions",
    (CommandTarget.NOTHING, (_R, _A)): """
        usersInfo rolesInfo serverStatus hostInfo getParameter getClusterParameter getCmdLineOpts getLog top
        connPoolStats shardConnPoolStats connPoolSync netstat lockInfo features replSetGetStatus replSetGetConfig
        replSetGetRBID listShards getShardMap shardingState balancerStatus balancerCollectionStatus
        getDefaultRWConcern getAuditConfig getDiagnosticData currentOp inprog getTrafficRecordingStatus oidcListKeys
        driverOIDCTest isSelf checkMetadataConsistency
    """,
    (CommandTarget.NOTHING, (_S,)): """
        hello isMaster ping buildInfo connectionStatus whatsmyuri isdbgrid endSessions startSession refreshSessions
        commitTransaction abortTransaction getLastError getPrevError resetError
    """,
    (CommandTarget.COLLECTION, (_S,)): "killCursors",
    (CommandTarget.NOTHING, (_A,)): """
        logout authenticate saslStart saslContinue getnonce killSessions killAllSessions killAllSessionsByPattern
        prepareTransaction coordinateCommitTransaction setFeatureCompatibilityVersion setParameter setClusterParameter
        shutdown killOp fsync fsyncUnlock logRotate rotateCertificates configureFailPoint waitForFailPoint
        dropConnections connectionPoolReset replSetInitiate replSetReconfig replSetStepDown replSetStepUp
        replSetStepUpIfEligible replSetFreeze replSetMaintenance replSetSyncFrom replSetAbortPrimaryCatchUp
        replSetResizeOplog replSetUpdatePosition replSetHeartbeat replSetRequestVotes replSetTest resync
        appendOplogNote addShard removeShard addShardToZone removeShardFromZone updateZoneKeyRange balancerStart
        balancerStop flushRouterConfig cleanupOrphaned setDefaultRWConcern setUserWriteBlockMode setAuditConfig
        logApplicationMessage startTrafficRecording stopTrafficRecording setProfilingFilterGlobally oidcRefreshKeys
        setIndexCommitQuorum setQuerySettings removeQuerySettings transitionFromDedicatedConfigServer
        transitionToDedicatedConfigServer autoCompact touch diagLogging setShardVersion
    """,
    (CommandTarget.DATABASE, (_A,)): "profile repairDatabase",
    (CommandTarget.DATABASE_NAME, (_A,)): "enableSharding movePrimary",
    (CommandTarget.NAMESPACE, (_A,)): """
        shardCollection reshardCollection refineCollectionShardKey unshardCollection moveCollection moveChunk moveRange
        mergeChunks mergeAllChunksOnShard split splitChunk splitVector clearJumboFlag configureCollectionBalancing
        setAllowMigrations abortReshardCollection commitReshardCollection cleanupReshardCollection
        abortUnshardCollection abortMoveCollection configureQueryAnalyzer
    """,
    (CommandTarget.COLLECTION, (_A,)): """
        compact compactStructuredEncryptionData cleanupStructuredEncryptionData planCacheClear planCacheClearFilters
        planCacheSetFilter analyze
    """,
    (CommandTarget.COLLECTION, (_D,)): """
        drop dropIndexes reIndex createSearchIndexes updateSearchIndex dropSearchIndex setIndexCommitQuorum
    """,
    (CommandTarget.COLLECTION, (_D, _W)): "convertToCapped emptycapped",
    (CommandTarget.DATABASE, (_D,)): "dropDatabase",
    (CommandTarget.NOTHING, (_G,)): """
        createUser updateUser dropUser dropAllUsersFromDatabase grantRolesToUser revokeRolesFromUser createRole
        updateRole dropRole dropAllRolesFromDatabase grantPrivilegesToRole revokePrivilegesFromRole grantRolesToRole
        revokeRolesFromRole invalidateUserCache
    """,
    (CommandTarget.EVERYTHING, (_A, _W)): "applyOps doTxn copydb clone cloneCollection",
}


def _entries() -> Iterator[tuple[str, tuple[CommandTarget, frozenset[Effect]]]]:
    for (named, effects), names in _LISTED.items():
        for name in names.split():
            yield name, (named, frozenset(effects))


COMMANDS: Final[Mapping[str, tuple[CommandTarget, frozenset[Effect]]]] = dict(_entries())
