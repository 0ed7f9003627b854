"""Object mappers of MongoDB: MongoEngine and Beanie. Arguments: mapper, connection string, name of a database."""

import asyncio
import sys

from pymongo.errors import OperationFailure


def mongoengine(uri: str, name: str) -> None:
    from mongoengine import Document, IntField, NotUniqueError, StringField, connect, disconnect
    from mongoengine import errors as mapper_errors

    class Note(Document):
        title = StringField(unique=True)
        size = IntField()

    class Forbidden(Document):
        meta = {"collection": "forbidden"}  # noqa: RUF012
        title = StringField()

    connect(name, host=uri, uuidRepresentation="standard")
    Note.drop_collection()
    for n in range(300):
        Note(title=f"note {n}", size=n).save()
    print("read", sum(note.size for note in Note.objects(size__gte=0).batch_size(50)))
    print("updated", Note.objects(size__lt=10).update(set__size=0))
    try:
        Note(title="note 1").save()
    except NotUniqueError:
        print("duplicate")
    try:
        Forbidden.objects().delete()
    except (OperationFailure, mapper_errors.OperationError) as error:
        print("denied", getattr(error, "code", None) or getattr(error.__cause__, "code", None))
    print("usable", Note.objects.count())
    disconnect()


async def beanie(uri: str, name: str) -> None:
    from beanie import Document, Indexed, init_beanie
    from pymongo import AsyncMongoClient
    from pymongo.errors import DuplicateKeyError

    class Note(Document):
        title: Indexed(str, unique=True)  # type: ignore[valid-type]
        size: int = 0

    class Forbidden(Document):
        class Settings:
            name = "forbidden"

        title: str = ""

    client = AsyncMongoClient(uri)
    await client.drop_database(name)
    await init_beanie(database=client[name], document_models=[Note, Forbidden])
    await Note.insert_many([Note(title=f"note {n}", size=n) for n in range(300)])
    print("read", sum([note.size async for note in Note.find(Note.size >= 0)]))
    result = await Note.find(Note.size < 10).update({"$set": {"size": 0}})
    print("updated", result.matched_count)
    try:
        await Note(title="note 1").insert()
    except DuplicateKeyError:
        print("duplicate")
    try:
        await Forbidden.find_all().delete()
    except OperationFailure as error:
        print("denied", error.code)
    print("usable", await Note.count())
    await client.close()


if __name__ == "__main__":
    mapper, uri, name = sys.argv[1:]
    if mapper == "mongoengine":
        mongoengine(uri, name)
    else:
        asyncio.run(beanie(uri, name))
