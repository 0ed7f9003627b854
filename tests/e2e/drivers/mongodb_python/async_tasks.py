"""The tasks of test_mongodb_drivers.py with asyncio: Motor, or PyMongo's AsyncMongoClient.

Arguments: `motor` or `pymongo`, the connection string, the name of a database. Prints one line for each task.
"""

import asyncio
import inspect
import sys
from typing import Any

from gridfs.asynchronous import AsyncGridFSBucket
from pymongo import AsyncMongoClient, WriteConcern
from pymongo.errors import OperationFailure


def make_client(library: str, uri: str) -> Any:
    if library == "pymongo":
        return AsyncMongoClient(uri)
    from motor.motor_asyncio import AsyncIOMotorClient

    return AsyncIOMotorClient(uri)


def make_bucket(library: str, database: Any) -> Any:
    if library == "pymongo":
        return AsyncGridFSBucket(database)
    from motor.motor_asyncio import AsyncIOMotorGridFSBucket

    return AsyncIOMotorGridFSBucket(database)


async def finish(result: Any) -> Any:
    """Await what one of the two libraries returns as a coroutine and the other as it is."""
    return await result if inspect.isawaitable(result) else result


async def fails(work: Any) -> str:
    try:
        await work
    except OperationFailure as error:
        return str(error.code)
    return "no error"


async def read(notes: Any, query: dict[str, Any], batch: int) -> list[int]:
    return [note["_id"] async for note in notes.find(query, batch_size=batch)]


async def run(library: str, uri: str, name: str) -> None:
    client = make_client(library, uri)
    database = client[name]
    await client.drop_database(name)
    notes = database.notes
    await notes.insert_many([{"_id": n, "group": n % 10, "text": "grüße " * 100} for n in range(5000)])
    print("inserted", await notes.count_documents({}))
    print("read", sum(await read(notes, {}, 500)))
    pipeline = [{"$group": {"_id": "$group", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    groups = [one async for one in await finish(notes.aggregate(pipeline))]
    print("groups", " ".join(f"{one['_id']}:{one['n']}" for one in groups))
    print("updated", (await notes.update_many({"group": 3}, {"$set": {"text": "short"}})).modified_count)
    print("distinct", len(await notes.distinct("group")))
    print("found and changed", (await notes.find_one_and_update({"_id": 7}, {"$inc": {"group": 1}}))["_id"])
    print("duplicate", await fails(notes.insert_one({"_id": 7})))
    print("unknown command", await fails(database.command("noSuchCommand")))
    print("denied", await fails(database.forbidden.delete_many({})))
    print("usable", int((await database.command("ping"))["ok"]))
    async with await finish(client.start_session()) as session:

        async def work(session: Any) -> None:
            await notes.insert_one({"_id": "in a transaction"}, session=session)
            await notes.delete_one({"_id": 8}, session=session)

        await session.with_transaction(work)
    print("committed", await notes.count_documents({"_id": {"$in": ["in a transaction", 8]}}))
    bucket = make_bucket(library, database)
    await bucket.upload_from_stream("file", b"x" * 1_000_000)
    print("file", len(await (await bucket.open_download_stream_by_name("file")).read()))
    async with await finish(notes.watch()) as changes:
        await changes.try_next()
        await notes.insert_one({"_id": "watched"})
        print("change", (await changes.next())["documentKey"]["_id"])
    await database.silent.with_options(write_concern=WriteConcern(w=0)).insert_one({"_id": 1})
    while not await database.silent.count_documents({}):
        pass
    print("unacknowledged", await database.silent.count_documents({}))
    together = await asyncio.gather(*(read(notes, {"group": group}, 50) for group in range(10)))
    print("in parallel", sum(map(len, together)))
    await finish(client.close())


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
