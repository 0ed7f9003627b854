import { choiceOf, textsOf } from "../../engines/search";
import { TABS, type Tab } from "./tabs";

const TEXTS = ["search", "user", "connection", "type"] as const;
const TIMES = ["start_date", "end_date"] as const;
const ONLY = ["open", "refused", "masked"] as const;

/** What narrows the list besides the search and its views. */
export const NARROWING = ["user", "connection", "type", "verb", ...TIMES] as const;

/** What the list of sessions can be narrowed to; the address says it, so that it can be sent to others. */
export interface SessionSearch extends Partial<Record<(typeof TEXTS)[number] | (typeof TIMES)[number], string>> {
  verb?: "connect" | "exec";
  only?: (typeof ONLY)[number];
}

export function sessionSearch(search: Record<string, unknown>): SessionSearch {
  const { start_date, end_date } = textsOf(search, TIMES);
  return {
    ...textsOf(search, TEXTS),
    ...(isTime(start_date) && { start_date }),
    ...(isTime(end_date) && { end_date }),
    ...choiceOf(search, "verb", ["connect", "exec"] as const),
    ...choiceOf(search, "only", ONLY),
  };
}

/** Return the query of the API for these filters. */
export function sessionQuery({ only, ...texts }: SessionSearch) {
  return {
    ...texts,
    ...(only === "open" && { status: "open" as const }),
    ...(only === "refused" && { refused: true }),
    ...(only === "masked" && { masked: true }),
  };
}

function isTime(text: string | undefined): text is string {
  return text !== undefined && !Number.isNaN(Date.parse(text));
}

/** What of a session is shown, and at which second of its replay. */
export interface SessionView {
  tab?: Tab;
  t?: number;
}

export function sessionView(search: Record<string, unknown>): SessionView {
  return { ...choiceOf(search, "tab", TABS), ...(Number(search.t) > 0 ? { t: Number(search.t) } : {}) };
}
