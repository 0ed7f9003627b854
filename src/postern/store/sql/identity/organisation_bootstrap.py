"""The creation of an organisation with its first rows, in one transaction."""

from __future__ import annotations

from sqlalchemy.exc import IntegrityError

from postern.domain.identity.principal import GroupSource
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.server_ports import Founding
from postern.store.sql.identity.sql_one_time_tokens import add_one_time_token, seal_row
from postern.store.sql.identity.sql_organisations import add_organisation, organisation_taken
from postern.store.sql.identity.sql_principals import add_account
from postern.store.sql.targets.sql_agents import add_agent


class SqlOrganisationBootstrap:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def add(self, founding: Founding) -> None:
        at = founding.organisation.created_at
        payload = await seal_row(self._encryption, founding.setup.digest, founding.setup.payload)
        try:
            async with self._database.transaction() as transaction:
                await add_organisation(transaction, founding.organisation)
                await add_account(transaction, founding.admin, at, GroupSource.MANUAL)
                if founding.agent is not None:
                    await add_agent(transaction, founding.agent)
                await add_one_time_token(transaction, founding.setup, payload)
        except IntegrityError:  # of what is new in a new organisation, only the organisation's name can be taken
            raise organisation_taken(founding.organisation) from None
