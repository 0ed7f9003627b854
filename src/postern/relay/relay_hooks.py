"""Session hooks on the tunnel: the order to an agent, and the result.

    OPEN {"order": "hook", …Order without secrets…, "hook": {…}}
                                        ◀── ACCEPT {"exit_code": …, "output": …, "reason": …}
                                         or REFUSE {"code": …, "message": …}

The answer comes when the hook and all its child processes have ended. Closing the stream ends the hook.
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
MORE = "\n[output truncated]"


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook to run for `seconds` at most.

    `id` identifies the run, `text` is its Python source, `context` is its input: base64 of JSON.
    """

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
        """Parse a hook order. Raises ProtocolViolation when it is invalid."""
        try:
            hook = message["hook"]
            text = base64.b64decode(hook["text"], validate=True).decode()
            return cls(UUID(hook["id"]), text, str(hook["context"]), float(hook["seconds"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProtocolViolation(f"the hook order is not valid ({type(error).__name__})") from None


def build_hook_order(permit: Permit, session_id: UUID, timeout: float) -> Order:
    """Return the order without the connection's secrets, which hooks do not need."""
    return replace(Order.of(permit, Start(), session_id, timeout), secret={})


def encode_outcome(outcome: HookOutcome) -> dict[str, Any]:
    return {"exit_code": outcome.exit_code, "output": outcome.output, "reason": outcome.reason}


def read_answer(message: Mapping[str, Any]) -> HookOutcome:
    """Parse a result and truncate it to its limits, whatever the agent sent. Raises ProtocolViolation."""
    code, output, reason = message.get("exit_code"), message.get("output"), message.get("reason")
    is_code = code is None or (isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= 255)
    if not (is_code and isinstance(output, str) and isinstance(reason, str)):
        raise ProtocolViolation("the agent's answer to the hook is not valid")
    return HookOutcome(code, truncate_output(output), reason[:MAX_REASON])


def truncate_output(output: str, *, is_cut: bool = False) -> str:
    """Return at most MAX_OUTPUT characters that every store accepts. If output is cut, they end with a note."""
    output = output.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if len(output) <= MAX_OUTPUT and not is_cut:
        return output
    return output[: MAX_OUTPUT - len(MORE)] + MORE
