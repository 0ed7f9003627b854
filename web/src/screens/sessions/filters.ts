import { choiceOf, textsOf } from "../../engines/search";
import { TABS, type Tab } from "./tabs";

const TEXTS = [
  ...(["search", "user", "connection", "type", "subtype", "tags", "correlation_id", "issue", "columns"] as const),
] as const;
const TIMES = ["start_date", "end_date"] as const;
const SECONDS = ["min_duration", "max_duration"] as const;
const PAIRS = ["label", "metadata"] as const;
const CHOICES = {
  verb: ["connect", "exec"],
  status: ["open", "ready", "done"],
  end_reason: [
    ...(["client_closed", "target_closed", "killed", "revoked", "expired", "idle", "protocol_violation"] as const),
    ...(["recording_failed", "gateway_stopped", "gateway_crashed", "rejected", "withdrawn"] as const),
    ...(["completed", "failed"] as const),
  ],
  review: [
    ...(["PENDING", "APPROVED", "PROCESSING", "EXECUTED", "REJECTED", "REVOKED", "EXPIRED", "WITHDRAWN"] as const),
  ],
  refused: ["yes", "no"],
  masked: ["yes", "no"],
  held: ["yes", "no"],
} as const;

type Choices = typeof CHOICES;

/** The filters in the order in which they are shown. */
export const FILTERS = [
  ...(["user", "connection", "type", "subtype", "tags", "verb", "status", "end_reason", "review"] as const),
  ...(["start_date", "end_date", "min_duration", "max_duration", "refused", "masked", "held"] as const),
  ...(["label", "metadata", "correlation_id", "issue"] as const),
] as const;
export type SessionFilter = (typeof FILTERS)[number];

/** What the list of sessions can be narrowed to; the address says it, so that it can be sent to others. */
export type SessionSearch = Partial<
  Record<(typeof TEXTS)[number] | (typeof TIMES)[number], string> &
    Record<(typeof SECONDS)[number], number> &
    Record<(typeof PAIRS)[number], readonly string[]> & { [name in keyof Choices]: Choices[name][number] }
>;

/** Read the search of an address, or the values of a form: what means nothing is left out. */
export function sessionSearch(search: Record<string, unknown>): SessionSearch {
  const { start_date, end_date } = textsOf(search, TIMES);
  const choices = Object.entries(CHOICES).map(([name, values]) => choiceOf<string, string>(search, name, values));
  return {
    ...textsOf(search, TEXTS),
    ...(isTime(start_date) && { start_date }),
    ...(isTime(end_date) && { end_date }),
    ...Object.fromEntries(SECONDS.flatMap((name) => secondsOf(search, name))),
    ...Object.fromEntries(PAIRS.flatMap((name) => pairsOf(search, name))),
    ...Object.assign({}, ...choices),
  };
}

/** Return the query of the API for these filters. */
export function sessionQuery({
  columns: _,
  tags,
  review,
  refused,
  masked,
  held,
  label,
  metadata,
  ...same
}: SessionSearch) {
  return {
    ...same,
    ...(tags && { tag_selector: tags }),
    ...(review && { "review.status": review }),
    ...(refused && { refused: refused === "yes" }),
    ...(masked && { masked: masked === "yes" }),
    ...(held && { held: held === "yes" }),
    ...(label && { label: [...label] }),
    ...(metadata && { metadata: [...metadata] }),
  };
}

/** The views that have a link of their own, by what of the search they set. */
export const VIEWS = {
  all: {},
  open: { status: "open" },
  refused: { refused: "yes" },
  masked: { masked: "yes" },
} as const satisfies Record<string, SessionSearch>;

/** Return the search in a view. What the views do not set stays. */
export function inView(view: keyof typeof VIEWS, search: SessionSearch): SessionSearch {
  const { status: _status, refused: _refused, masked: _masked, ...others } = search;
  return { ...others, ...VIEWS[view] };
}

/** One value of a filter that is set, and the search without it. */
export interface SetFilter {
  name: SessionFilter;
  value: string;
  without: SessionSearch;
}

/** Return what is set: of lists each entry. */
export function setFilters(search: SessionSearch): SetFilter[] {
  return FILTERS.flatMap((name) => {
    const { [name]: value, ...without } = search;
    if (value === undefined) return [];
    if (typeof value === "string" || typeof value === "number") return [{ name, value: String(value), without }];
    return value.map((pair) => {
      const others = value.filter((other) => other !== pair);
      return { name, value: pair, without: others.length ? { ...without, [name]: others } : without };
    });
  });
}

function isTime(text: string | undefined): text is string {
  return text !== undefined && !Number.isNaN(Date.parse(text));
}

function secondsOf(search: Record<string, unknown>, name: string): [string, number][] {
  const value = search[name];
  const seconds = typeof value === "string" && value.trim() ? Number(value) : value;
  return typeof seconds === "number" && Number.isFinite(seconds) && seconds >= 0 ? [[name, seconds]] : [];
}

/** Return the entries that are key:value: the gateway refuses others. */
function pairsOf(search: Record<string, unknown>, name: string): [string, string[]][] {
  const value = search[name];
  const texts: unknown[] = Array.isArray(value) ? value : [value];
  const pairs = texts.filter((text): text is string => typeof text === "string" && text.indexOf(":") > 0);
  return pairs.length ? [[name, [...new Set(pairs)]]] : [];
}

/** What of a session is shown, and at which second of its replay. */
export interface SessionView {
  tab?: Tab;
  t?: number;
}

export function sessionView(search: Record<string, unknown>): SessionView {
  return { ...choiceOf(search, "tab", TABS), ...(Number(search.t) > 0 ? { t: Number(search.t) } : {}) };
}
