import { choiceOf, textsOf } from "../../engines/search";

/** What the list of reviews can show; the address says which. */
export const VIEWS = ["waiting", "mine", "all"] as const;
export type View = (typeof VIEWS)[number];

const TEXTS = ["connection", "columns"] as const;
const CHOICES = {
  type: ["onetime", "jit", "statement"],
  status: [
    ...(["PENDING", "APPROVED", "PROCESSING", "EXECUTED", "REJECTED", "REVOKED", "EXPIRED", "WITHDRAWN"] as const),
  ],
} as const;

export type ReviewFilter = "connection" | "type" | "status";

/** What the list of reviews shows, and what it is narrowed to. */
export interface ReviewSearch extends Partial<Record<(typeof TEXTS)[number], string>> {
  view?: View;
  type?: (typeof CHOICES.type)[number];
  status?: (typeof CHOICES.status)[number];
}

export function reviewSearch(search: Record<string, unknown>): ReviewSearch {
  return {
    ...choiceOf(search, "view", VIEWS),
    ...textsOf(search, TEXTS),
    ...choiceOf(search, "type", CHOICES.type),
    ...choiceOf(search, "status", CHOICES.status),
  };
}

/** Return the query of the API. Reviews that wait for the user have one status, so that none can be chosen there. */
export function reviewQuery({ view = "waiting", connection, type, status }: ReviewSearch) {
  return {
    ...(view === "waiting" && { waiting_for_me: true }),
    ...(view === "mine" && { owner: "self" }),
    ...(connection && { connection }),
    ...(type && { type }),
    ...(status && view !== "waiting" && { status }),
  };
}

/** Return the filters that count in the view of the search. */
export function reviewFilters({ view = "waiting" }: ReviewSearch): ReviewFilter[] {
  return view === "waiting" ? ["connection", "type"] : ["connection", "type", "status"];
}
