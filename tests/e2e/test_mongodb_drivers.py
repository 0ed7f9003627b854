"""Drivers of MongoDB as people use them, unmodified: through the gateway they get the same answers as from the server.

Each program of `drivers/mongodb_*` prints one line for each of the same tasks, by the driver's own types.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymongo
import pytest
from pymongo.errors import OperationFailure
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.mongodb import PASSWORD, USER, MongoServer, mongosh, run_mongosh, running_mongodb
from tests.support.mongodb_drivers import installed_mappers, installed_node_driver, node
from tests.support.mongodb_gateway import ANN, SECRET, SplicingFronts, listening_gate

from postern.domain.identity.credential import Issued
from postern.protocols.clients import NativeCredential
from postern.protocols.mongodb.mongodb_client import mongodb_uri
from postern.wiring import tls

pytestmark = pytest.mark.slow

DRIVERS = Path(__file__).parent / "drivers"
JAVA_DRIVER = "5.5.1"
PATHS = ("plain", "plain-tls", "load-balanced")
ANSWERS = """\
inserted 5000
read 12497500
groups 0:500 1:500 2:500 3:500 4:500 5:500 6:500 7:500 8:500 9:500
updated 500
distinct 10
found and changed 7
duplicate 11000
unknown command 59
denied 13
usable 1
committed 1
file 1000000
change watched
unacknowledged 1
in parallel 4999
"""
MAPPED = "read 44850\nupdated 10\nduplicate\ndenied 13\nusable 300\n"
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>postern.test</groupId><artifactId>tasks</artifactId><version>1</version><dependencies>
<dependency><groupId>org.mongodb</groupId><artifactId>mongodb-driver-sync</artifactId><version>%s</version></dependency>
</dependencies></project>
"""


@pytest.fixture(scope="module")
def mongodb() -> Iterator[MongoServer]:
    with running_mongodb() as server:
        yield server


@pytest.fixture(scope="module")
def mongodb_gateway(mongodb: MongoServer) -> Iterator[Gateway]:
    running = Gateway()
    try:
        running.start()
        secret = {"PORT": str(mongodb.port), "USER": USER, "PASS": PASSWORD, "SSLMODE": "disable", "DB": ""}
        connection = running.connection("notes", secret=secret, subtype="mongodb")
        running.guardrail("nothing is forbidden", connection, deny=r'^\{"delete": "forbidden"')
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def issued(mongodb_gateway: Gateway) -> Issued:
    return mongodb_gateway.credential("notes")


@pytest.fixture(scope="module", params=PATHS)
def uri(request: pytest.FixtureRequest, mongodb_gateway: Gateway, issued: Issued) -> str:
    """The connection string that `postern connect --native` prints, and two that people write themselves."""
    port = mongodb_gateway.settings.mongodb_port
    if request.param == "plain":
        login = f"{issued.credential.username}:{quote(issued.password.reveal(), safe='')}"
        return f"mongodb://{login}@localhost:{port}/?authSource=admin"
    authority = tls.authority(mongodb_gateway.settings)
    credential = NativeCredential(issued.credential.username, issued.password, "localhost", port, "", authority)
    printed = mongodb_uri(credential)
    return printed if request.param == "load-balanced" else printed.replace("&loadBalanced=true", "")


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    program = tmp_path_factory.mktemp("mongodb-go") / "tasks"
    run([need("go", "golang-go"), "build", "-o", str(program), "."], DRIVERS / "mongodb_go")
    return [str(program)]


@pytest.fixture(scope="module")
def java_program(tmp_path_factory: pytest.TempPathFactory, mongodb_gateway: Gateway) -> list[str]:
    """How the program is started. Java takes authorities from a store of its own, not from the connection string."""
    folder = tmp_path_factory.mktemp("mongodb-java")
    (folder / "pom.xml").write_text(POM % JAVA_DRIVER)
    run([need("mvn", "maven"), "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"], folder)
    source = str(DRIVERS / "mongodb_java" / "Tasks.java")
    run([need("javac", "default-jdk-headless"), "-cp", f"{folder}/*", "-d", str(folder), source], folder)
    store = folder / "authorities"
    authority = tls.authority(mongodb_gateway.settings)
    if authority is not None:
        names = ["-importcert", "-noprompt", "-alias", "gateway", "-storepass", "changeit"]
        command = [need("keytool", "default-jdk-headless"), *names, "-file", str(authority), "-keystore", str(store)]
        run(command, folder)
    trust = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]
    return [need("java", "default-jdk-headless"), *trust, "-cp", f"{folder}:{folder}/*", "Tasks"]


def run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, env=clean_environment(**environment)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tasks_have_these_answers_without_the_gateway(mongodb: MongoServer, tmp_path: Path) -> None:
    direct = f"mongodb://root:{quote(PASSWORD, safe='')}@localhost:{mongodb.port}/?directConnection=true"
    answers = run(
        [sys.executable, str(DRIVERS / "mongodb_python/async_tasks.py"), "pymongo", direct, "direct"], tmp_path
    )
    assert answers == ANSWERS.replace("denied 13", "denied no error")


def test_async_pymongo_gets_the_answers_of_the_server(uri: str, tmp_path: Path) -> None:
    command = [sys.executable, str(DRIVERS / "mongodb_python/async_tasks.py"), "pymongo", uri, "async_pymongo"]
    assert run(command, tmp_path) == ANSWERS


def test_motor_gets_the_answers_of_the_server(uri: str, tmp_path: Path) -> None:
    command = [sys.executable, str(DRIVERS / "mongodb_python/async_tasks.py"), "motor", uri, "motor"]
    assert run(command, tmp_path, PYTHONPATH=installed_mappers()) == ANSWERS


@pytest.mark.parametrize("mapper", ["mongoengine", "beanie"])
def test_object_mapper_stores_and_finds_documents(uri: str, tmp_path: Path, mapper: str) -> None:
    command = [sys.executable, str(DRIVERS / "mongodb_python/mapped_documents.py"), mapper, uri, mapper]
    assert run(command, tmp_path, PYTHONPATH=installed_mappers()) == MAPPED


def test_node_driver_gets_the_answers_of_the_server(uri: str, tmp_path: Path) -> None:
    program = str(DRIVERS / "mongodb_node/tasks.mjs")
    assert run([node(), program, str(installed_node_driver()), uri, "node"], tmp_path) == ANSWERS


def test_go_driver_gets_the_answers_of_the_server(uri: str, go_program: list[str], tmp_path: Path) -> None:
    assert run([*go_program, uri, "go"], tmp_path) == ANSWERS


def test_java_driver_gets_the_answers_of_the_server(uri: str, java_program: list[str], tmp_path: Path) -> None:
    assert run([*java_program, uri, "java"], tmp_path) == ANSWERS


SHELL = """
db = db.getSiblingDB('shell');
db.dropDatabase();
for (let n = 0; n < 5; n++)
  db.notes.insertMany(Array.from({length: 1000}, (_, i) => ({_id: n * 1000 + i, group: i % 10})));
print('inserted', db.notes.countDocuments({}));
print('read', db.notes.find().batchSize(500).toArray().reduce((sum, note) => sum + note._id, 0));
print('groups', db.notes.aggregate([{$group: {_id: '$group', n: {$sum: 1}}}]).toArray().length);
const code = (work) => { try { work(); return 'no error'; } catch (error) { return error.code; } };
print('duplicate', code(() => db.notes.insertOne({_id: 7})));
print('denied', code(() => db.runCommand({delete: 'forbidden', deletes: [{q: {}, limit: 0}]})));
print('collections', db.getCollectionNames().length, db.adminCommand({listDatabases: 1}).ok, db.stats().ok);
print('explained', db.notes.find({_id: 7}).explain().ok);
const session = db.getMongo().startSession();
session.startTransaction();
session.getDatabase('shell').notes.insertOne({_id: 'aborted'});
session.abortTransaction();
print('aborted', db.notes.countDocuments({_id: 'aborted'}));
"""
SHELL_ANSWERS = """\
inserted 5000
read 12497500
groups 10
duplicate 11000
denied 13
collections 1 1 1
explained 1
aborted 0
"""


@pytest.mark.skipif(mongosh() is None, reason="no mongosh: scripts/install-services mongosh gets it from npm")
async def test_mongosh_gets_the_answers_of_the_server(uri: str, tmp_path: Path) -> None:
    code, shown = await run_mongosh(uri, SHELL, tmp_path)
    assert (code, shown) == (0, SHELL_ANSWERS)


# What Compass and other graphical clients ask for when they connect and show databases, collections and documents.
DISCOVERY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("admin", {"hello": 1}),
    ("admin", {"connectionStatus": 1, "showPrivileges": True}),
    ("admin", {"buildInfo": 1}),
    ("admin", {"hostInfo": 1}),
    ("admin", {"getCmdLineOpts": 1}),
    ("admin", {"getParameter": 1, "featureCompatibilityVersion": 1}),
    ("admin", {"atlasVersion": 1}),
    ("admin", {"serverStatus": 1}),
    ("admin", {"top": 1}),
    ("admin", {"getLog": "startupWarnings"}),
    ("admin", {"currentOp": 1}),
    ("admin", {"listDatabases": 1, "nameOnly": True}),
    ("admin", {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}}),
    ("discovered", {"usersInfo": 1}),
    ("discovered", {"rolesInfo": 1}),
    ("discovered", {"listCollections": 1, "nameOnly": True, "authorizedCollections": True}),
    ("discovered", {"dbStats": 1}),
    ("discovered", {"collStats": "notes"}),
    ("discovered", {"listIndexes": "notes"}),
    ("discovered", {"count": "notes"}),
    ("discovered", {"aggregate": "notes", "pipeline": [{"$collStats": {"storageStats": {}}}], "cursor": {}}),
    ("discovered", {"aggregate": "notes", "pipeline": [{"$indexStats": {}}], "cursor": {}}),
    ("discovered", {"aggregate": "notes", "pipeline": [{"$listSearchIndexes": {}}], "cursor": {}}),
    ("discovered", {"aggregate": "notes", "pipeline": [{"$match": {}}, {"$sample": {"size": 5}}], "cursor": {}}),
    ("discovered", {"explain": {"find": "notes", "filter": {"_id": 1}}, "verbosity": "queryPlanner"}),
)
NOT_COMPARED = {"$clusterTime", "operationTime"}


def discovered(client: pymongo.MongoClient[dict[str, Any]]) -> dict[str, list[str] | int | None]:
    """Return the fields of each reply, or the code of its error."""
    replies: dict[str, list[str] | int | None] = {}
    for database, command in DISCOVERY:
        try:
            replies[f"{command}"] = sorted(set(client[database].command(command)) - NOT_COMPARED)
        except OperationFailure as error:
            replies[f"{command}"] = error.code
    return replies


def test_graphical_clients_discover_what_the_server_has(mongodb: MongoServer, uri: str) -> None:
    with mongodb.client() as direct:
        direct.discovered.notes.drop()
        direct.discovered.notes.insert_many([{"_id": n} for n in range(20)])
        expected = discovered(direct)
    with pymongo.MongoClient[dict[str, Any]](uri) as client:
        actual = discovered(client)
    del expected["{'hello': 1}"], actual["{'hello': 1}"]  # the gateway replies to it, with fewer fields
    assert actual == expected


WAITING = "authSource=admin&authMechanism=SCRAM-SHA-256&loadBalanced=true&connectTimeoutMS={}"


async def run_during_review(server: MongoServer, command: Callable[[str], list[str]], timeout: int) -> tuple[int, str]:
    """Run a driver whose login needs approval, which is given after 6 seconds. `timeout` is its own, in seconds."""
    fronts = SplicingFronts(server)
    fronts.decided.clear()
    async with listening_gate(fronts) as port:
        uri = f"mongodb://{ANN}:{quote(SECRET)}@localhost:{port}/?{WAITING.format(timeout * 1000)}"
        process = await asyncio.create_subprocess_exec(
            *command(uri), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            await asyncio.sleep(6)
            fronts.decided.set()
            output, _ = await asyncio.wait_for(process.communicate(), 240)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")


async def test_pymongo_waits_for_a_review_longer_than_for_a_connection(mongodb: MongoServer) -> None:
    program = [sys.executable, str(DRIVERS / "mongodb_python/async_tasks.py"), "pymongo"]
    code, shown = await run_during_review(mongodb, lambda uri: [*program, uri, "held_python"], 3)
    assert code == 0, shown


async def test_node_driver_waits_for_a_review_longer_than_for_a_connection(mongodb: MongoServer) -> None:
    program = [node(), str(DRIVERS / "mongodb_node/tasks.mjs"), str(installed_node_driver())]
    code, shown = await run_during_review(mongodb, lambda uri: [*program, uri, "held_node"], 3)
    assert code == 0, shown


async def test_java_driver_waits_for_a_review_longer_than_for_a_connection(
    mongodb: MongoServer, java_program: list[str]
) -> None:
    code, shown = await run_during_review(mongodb, lambda uri: [*java_program, uri, "held_java"], 3)
    assert code == 0, shown


@pytest.mark.parametrize(("timeout", "succeeds"), [(3, False), (60, True)])
async def test_go_driver_waits_for_a_review_as_long_as_for_a_connection(
    mongodb: MongoServer, go_program: list[str], timeout: int, succeeds: bool
) -> None:
    code, shown = await run_during_review(mongodb, lambda uri: [*go_program, uri, "held_go"], timeout)
    assert (code == 0) is succeeds, shown
