"""No secret is in the store in clear text: every byte of it is searched."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import make_url
from tests.support.postgres import binaries
from tests.support.runbooks import URL
from tests.support.sessions import add_session
from tests.support.world import CLIENT, World

from postern.domain.hook import HookKind, HookOutcome, HookRun
from postern.domain.identity.login import LoginMethod, Provided, TokenPurpose
from postern.domain.identity.principal import Principal
from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.domain.issues.issue import IssueTemplate, Prompt, TrackerKind, WhenDown
from postern.domain.runbook import OPEN_HOOK
from postern.domain.secret import Secret
from postern.domain.targets.connection import ConnectionType
from postern.services.issues.tracker_settings import TrackerFields
from postern.services.server.idempotency import IdempotencyTicket
from postern.store.ports.identity_ports import NewOneTimeToken
from postern.store.sql.resealing import reseal

MARK = "planted-0f3c9a"


def planted(what: str) -> str:
    return f"{MARK}-{what}-{uuid4().hex}"


async def plant(world: World) -> list[str]:
    """Each kind of secret once, by the way it takes in life; answers their texts."""
    services, at = world.services(), world.clock()
    secrets = {name: planted(name) for name in ("connection", "password", "refresh", "oidc", "totp", "payload", "kept")}
    admin = await world.add_user("root", "admin")
    value = base64.b64encode(secrets["connection"].encode()).decode()
    await world.add_connection(secret={"envvar:PASS": Secret(value)})
    fields = {"email": "ann@example.com", "name": "Ann", "password": Secret(secrets["password"])}
    ann = (await services.users.create(admin, fields)).principal
    account = await world.stores.principals.get(world.org_id, ann.id)
    assert account is not None
    provided = Provided(at + timedelta(hours=1), Secret(secrets["refresh"]))
    opened = await services.logins.open(account, LoginMethod.OIDC, CLIENT, provided)
    issued = await services.credentials.issue(ann, "shop", None)
    api_key = await services.api_keys.create(admin, {"name": "ci"})
    await world.stores.settings.put(world.org_id, "auth", {"client_secret": secrets["oidc"]}, at)
    material = secrets["totp"].encode()
    await world.stores.second_factors.add(SecondFactor(uuid4(), ann.id, FactorKind.TOTP, "phone", material, at))
    digest, later = os.urandom(32), at + timedelta(hours=1)
    await world.stores.one_time_tokens.add(
        NewOneTimeToken(TokenPurpose.SETUP, digest, {"secret": secrets["payload"]}, at, later)
    )
    ticket = await services.idempotency.begin(ann, "key", "POST", "/api/x?", b"")
    assert isinstance(ticket, IdempotencyTicket)
    await services.idempotency.finish(ticket, 200, {"token": secrets["kept"]}, secrets["kept"].encode())
    names = ("git password", "ssh key", "passphrase", "runbook", "hook", "printed")
    password, key, passphrase, text, hook, output = (planted(name) for name in names)
    pin = 'echo {{ .pin | type "password" | asenv "PIN" }}'
    world.fetcher.put({"a.runbook.sh": text, "pin.runbook.sh": pin}, hooks={OPEN_HOOK: hook})
    secret = {"git_password": Secret(password), "ssh_key": Secret(key), "ssh_keypass": Secret(passphrase)}
    repository = await services.runbook_repositories.create(admin, {"git_url": URL, "hook_ttl": 60, **secret})
    read = await services.runbook_repositories.refresh(admin, repository.name)
    assert read.commit is not None
    (script,) = await services.hooks.of(world.org_id, HookKind.OPEN)
    assert script.text == hook
    run = (uuid4(), world.org_id, (await add_session(world, ann)).id, script.kind, script.repository, script.commit)
    await services.hooks.record_run(HookRun(*run, at, 0.1, HookOutcome(0, output)))
    of_schedule = await plant_schedule(world, admin)
    (signing, *_) = await world.stores.signing_keys.all()
    shown = [
        *secrets.values(),
        password,
        key,
        passphrase,
        text,
        *of_schedule,
        hook,
        output,
        value,
        opened.token.reveal(),
        issued.password.reveal(),
        api_key.secret.reveal(),
    ]
    return [*shown, base64.b64encode(signing.private).decode(), signing.private.hex()]


async def plant_schedule(world: World, admin: Principal) -> list[str]:
    """A value of a parameter and one of a field of issues: of one run that is under way, and one that failed."""
    services, at = world.services(), world.clock()
    tool = await world.add_connection("tool", type=ConnectionType.CUSTOM, subtype="", command=("bash",))
    asks = IssueTemplate(uuid4(), world.org_id, "changes", "acme/ops", "7", prompts=(Prompt("why", "Why"),))
    await world.stores.issue_templates.add(replace(asks, connection_ids=(tool.id,), created_at=at, updated_at=at))
    token, parameter, field = (planted(name) for name in ("tracker", "parameter", "field"))
    url = "https://api.github.com"
    tracker = TrackerFields(kind=TrackerKind.GITHUB, url=url, token=Secret(token), when_down=WhenDown.GO_ON)
    await services.tracker.create(admin, tracker)
    given = {"name": "nightly", "connection": "tool", "file": "pin.runbook.sh", "cron": "0 * * * *"}
    sealed = {"parameters": {"pin": Secret(parameter)}, "tracker_fields": {"why": Secret(field)}}
    await services.runbook_schedules.create(admin, {**given, **sealed})
    for _ in range(2):
        world.clock.forward(hours=1)
        await services.runbook_schedules.once()
    (failed,) = await world.stores.postprocessing.failed_runs(10)
    assert failed.error.startswith("skipped")
    return [token, parameter, field]


async def bytes_of(world: World, url: str) -> bytes:
    """Of SQLite the files with all that was not checkpointed; of PostgreSQL a dump of all tables."""
    if world.database.is_sqlite:
        path = Path(str(make_url(url).database))
        files = [path, *path.parent.glob(f"{path.name}-*")]
        return b"".join(file.read_bytes() for file in files)
    found = binaries()
    dump = shutil.which("pg_dump", path=f"{found}:{os.environ['PATH']}") if found else shutil.which("pg_dump")
    if dump is None:
        assert os.environ.get("CI") != "true"
        pytest.skip("no pg_dump: install Debian's postgresql-client")
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    done = await asyncio.to_thread(subprocess.run, [dump, plain], capture_output=True, check=False)
    if b"version mismatch" in done.stderr:
        pytest.skip("pg_dump is older than the server")
    assert done.returncode == 0, done.stderr
    return done.stdout


def spellings(secret: str) -> list[bytes]:
    """As text, as base64 (inside of longer text, too), and as the hexadecimal digits that a dump writes."""
    clear = secret.encode()
    return [clear, base64.b64encode(clear)[:-4], clear.hex().encode(), clear[::-1]]


async def test_attack_054_no_secret_is_in_the_store_in_clear_text_after_key_renewals(
    world: World, database_url: str
) -> None:
    secrets = await plant(world)
    for _ in range(2):
        stored = await bytes_of(world, database_url)
        assert b"ann@example.com" in stored  # the search would find what is there
        for secret in secrets:
            for spelling in spellings(secret):
                assert spelling not in stored, secret
        assert MARK.encode() not in stored
        assert MARK.encode().hex().encode() not in stored
        for org_id in (world.org_id, None):
            await world.encryption.renew(org_id)
            await reseal(world.database, world.encryption, org_id)
