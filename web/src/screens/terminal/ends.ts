import { ENDED, MUST_STEP_UP, type TerminalEnd } from "../../api/terminal";
import { text } from "./messages";

/** Why a terminal ended, for its user: what happened, and what the gateway says about it. */
export interface EndWords {
  kind: "info" | "held" | "refused";
  what: string;
  detail: string;
}

const BY_GATEWAY = 255;

export function wordsOf({ code, message, exit, notice }: TerminalEnd): EndWords {
  if (code === null && message === "") return { kind: "refused", what: text.lost, detail: notice };
  if (code === MUST_STEP_UP) return { kind: "held", what: text.mustProve, detail: "" };
  if (code !== ENDED || exit === null) return { kind: "refused", what: message, detail: notice };
  if (exit.code === BY_GATEWAY && notice !== "") return { kind: "held", what: text.endedByGateway, detail: notice };
  if (exit.signal !== "") return { kind: "info", what: text.endedBy(exit.signal), detail: "" };
  return { kind: "info", what: exit.code === 0 ? text.ended : text.endedWith(exit.code), detail: "" };
}
