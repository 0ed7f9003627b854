"""Addresses of pages for users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from postern.domain.page_addresses import review_address
from postern.services.server.server_configs import ServerConfigs


def review_page(configs: ServerConfigs) -> Callable[[UUID], Awaitable[str]]:
    """Return a function that gives the address of a review's page, by the API's current address."""

    async def address(review_id: UUID) -> str:
        return review_address((await configs.current()).api_url, review_id)

    return address
