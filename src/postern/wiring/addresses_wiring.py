"""Where people find in a browser what they are told of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from postern.domain.reviews.review_groups import address as page_address
from postern.services.server.server_configs import ServerConfigs


def review_page(configs: ServerConfigs) -> Callable[[UUID], Awaitable[str]]:
    """What tells the address of a review's page, by the API's address as it is then."""

    async def address(review_id: UUID) -> str:
        return page_address((await configs.current()).api_url, review_id)

    return address
