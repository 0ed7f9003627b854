"""Bodies of logins of browsers at HTTP applications."""

from __future__ import annotations

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.services.identity.app_logins import Application


class ApplicationAnswer(Answer):
    host: str = Field(description="First label of its host")
    connection_name: str
    url: str = Field(description="Its address, without a path")
    was_opened: bool = Field(description="Whether the caller has opened it in a browser before")

    @classmethod
    def of(cls, application: Application, host: str) -> ApplicationAnswer:
        return cls(
            host=host,
            connection_name=application.connection.name,
            url=application.url,
            was_opened=application.was_opened,
        )


class AppLoginRequest(Body):
    host: str = Field(max_length=63, description="First label of the application's host")
    challenge: str = Field(
        max_length=64, description="SHA-256, in base64url, of the nonce that the browser has for this host"
    )


class AppLoginAnswer(Answer):
    url: str = Field(description="Where the browser that has the nonce is logged in; secret, and good once")
