// What the home page shows of the user's own sessions.

import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { FALLBACK_INTERVAL, JUST_READ } from "./changes";
import { api, unwrap } from "./client";
import { preferencesQuery } from "./preferences";
import { waitingReviewsQuery } from "./waiting";

const LOOKED_AT = 50; // own sessions, whose connections are the recent ones
const SHOWN = 10;

/** The connections of the user's newest sessions, each once. */
export const recentConnectionsQuery = (email: string) =>
  queryOptions({
    queryKey: ["sessions", "recent", email],
    staleTime: JUST_READ,
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: async () => {
      const query = { user: email, limit: LOOKED_AT, count: "none" as const };
      const { data } = await unwrap(api.GET("/api/sessions", { params: { query } }));
      const seen = new Map<string, string>();
      for (const { connection, start_date } of data) if (!seen.has(connection)) seen.set(connection, start_date);
      return [...seen].map(([name, at]) => ({ name, at }));
    },
  });

export const openSessionsQuery = (email: string) =>
  queryOptions({
    queryKey: ["sessions", "open", email],
    staleTime: JUST_READ,
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: () =>
      unwrap(api.GET("/api/sessions", { params: { query: { user: email, status: "open", limit: SHOWN } } })),
  });

/** Read what home shows, while it is drawn for the first time. What fails is read again by the part that shows it. */
export function prefetchHome(queries: QueryClient, email: string): void {
  void queries.prefetchQuery(recentConnectionsQuery(email));
  void queries.prefetchQuery(openSessionsQuery(email));
  void queries.prefetchQuery(waitingReviewsQuery);
  void queries.prefetchQuery(preferencesQuery);
}
