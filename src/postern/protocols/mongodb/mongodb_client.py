"""Clients of MongoDB: mongosh, and credentials as drivers take them.

Every connection string has `loadBalanced=true`: a driver then opens no connections to monitor the server, looks for no
other servers, and asks for the rest of a result on the connection on which it began. The mechanism is named, as no
other one is offered, and the server's certificate and its name are verified.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final
from urllib.parse import quote

from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource, netloc, uri

_SOCKET: Final = "mongodb.sock"
_LOAD_BALANCED: Final = "loadBalanced=true"


def mongodb_uri(credential: NativeCredential) -> str:
    """Return the connection string. Without a password, mongosh and Compass ask for it."""
    trust = {"tlsCAFile": str(credential.authority)} if credential.authority is not None else {}
    settings = {"tls": "true", **trust, "authMechanism": "SCRAM-SHA-256", "authSource": "admin", "loadBalanced": "true"}
    return uri("mongodb", credential, settings)


def mongosh_line(credential: NativeCredential) -> str:
    """Return a command with a credential, quoted for a shell. Without a password it asks for it."""
    return shlex.join(["mongosh", mongodb_uri(credential)])


def carried_line(host: str, port: int, database: str) -> str:
    """Return a command for a port that needs no password."""
    return shlex.join(["mongosh", f"mongodb://{netloc(host, port)}/{quote(database, safe='')}?{_LOAD_BALANCED}"])


def mongosh_words(folder: Path, database: str) -> list[str]:
    """Return the arguments of the client for the socket in `folder`."""
    return [f"mongodb://{quote(str(folder / _SOCKET), safe='')}/{quote(database, safe='')}?{_LOAD_BALANCED}"]


def _pymongo(credential: NativeCredential) -> str:
    """Return the call of PyMongo. Text in JSON's escapes is valid in Python."""
    password = "" if credential.password else ", password=PASSWORD"
    return f"pymongo.MongoClient({json.dumps(mongodb_uri(credential))}{password})"


def _node(credential: NativeCredential) -> str:
    """Return the call of the Node.js driver, which takes the password apart from the connection string."""
    password = "" if credential.password else f", {{auth: {{username: {json.dumps(credential.user)}, password}}}}"
    return f"new MongoClient({json.dumps(mongodb_uri(credential))}{password})"


def _env(credential: NativeCredential) -> str:
    """Return a line for a shell, quoted for it."""
    return f"export MONGODB_URI={shlex.quote(mongodb_uri(credential))}"


def _tools(credential: NativeCredential) -> str:
    """Return the configuration file of the database tools (mongodump, mongorestore), for --config. It is YAML, of which
    JSON's texts are a part."""
    return f"uri: {json.dumps(mongodb_uri(credential))}"


CLIENT: Final = NativeClient(
    names=("mongosh",),
    package="mongodb-mongosh",
    elsewhere="mongosh",
    shows_waiting=False,
    line=mongosh_line,
    carried_line=carried_line,
    socket=_SOCKET,
    socket_arguments=mongosh_words,
    forms={
        "uri": CredentialForm(mongodb_uri, PasswordSource.PROMPT),
        "pymongo": CredentialForm(_pymongo, PasswordSource.SETTING),
        "node": CredentialForm(_node, PasswordSource.SETTING),
        "env": CredentialForm(_env, PasswordSource.LINE),
        "tools": CredentialForm(_tools, PasswordSource.LINE),
    },
    examples=("postern connect orders --native --format tools > orders.yaml && mongodump --config=orders.yaml",),
)
