"""A session hook on its way to an agent, and what came of it on the way back.

    OPEN {"order": "hook", …Order without secrets…, "hook": {…}}
                                        ◀── ACCEPT {"exit_code": …, "output": …, "reason": …}
                                         or REFUSE {"code": …, "message": …}

The answer comes when the hook and all that it began have ended. Who takes the wish back ends it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from postern.domain.hook import MAX_OUTPUT, MAX_REASON, HookOutcome
from postern.domain.rules.permit import Permit
from postern.errors import ProtocolViolation
from postern.relay.orders import Order
from postern.relay.relay_target import Start

HOOK = "hook"
MORE = "\n[it printed more, which is left out]"


@dataclass(frozen=True, slots=True)
class Hook:
    """`id` is that of its run, `text` its Python, `context` what it is told: base64 of JSON. `seconds` that it may
    run."""

    id: UUID
    text: str
    context: str
    seconds: float

    def message(self, order: Order) -> dict[str, Any]:
        text = base64.b64encode(self.text.encode()).decode()
        hook = {"id": str(self.id), "text": text, "context": self.context, "seconds": self.seconds}
        return {**order.message(HOOK), "hook": hook}

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> Hook:
        """Raises ProtocolViolation when it is none."""
        try:
            hook = message["hook"]
            text = base64.b64decode(hook["text"], validate=True).decode()
            return cls(UUID(hook["id"]), text, str(hook["context"]), float(hook["seconds"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProtocolViolation(f"a hook that cannot be read ({type(error).__name__})") from None


def order_for(permit: Permit, session_id: UUID, timeout: float) -> Order:
    """Without the connection's secrets: hooks have no use for them."""
    return replace(Order.of(permit, Start(), session_id, timeout), secret={})


def answer_of(outcome: HookOutcome) -> dict[str, Any]:
    return {"exit_code": outcome.exit_code, "output": outcome.output, "reason": outcome.reason}


def read_answer(message: Mapping[str, Any]) -> HookOutcome:
    """Within its bounds, whatever the agent says. Raises ProtocolViolation."""
    code, output, reason = message.get("exit_code"), message.get("output"), message.get("reason")
    is_code = code is None or (isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= 255)
    if not (is_code and isinstance(output, str) and isinstance(reason, str)):
        raise ProtocolViolation("an agent's answer to a hook that cannot be read")
    return HookOutcome(code, kept(output), reason[:MAX_REASON])


def kept(output: str, *, is_cut: bool = False) -> str:
    """At most MAX_OUTPUT characters that every store takes; the last of them say that there was more."""
    output = output.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if len(output) <= MAX_OUTPUT and not is_cut:
        return output
    return output[: MAX_OUTPUT - len(MORE)] + MORE
