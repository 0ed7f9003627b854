// The reviews that wait for the user's decision.

import { queryOptions, useQuery } from "@tanstack/react-query";
import { FALLBACK_INTERVAL, JUST_READ } from "./changes";
import { api, unwrap } from "./client";

const SHOWN = 10;

/** The newest of them, and how many there are. */
export const waitingReviewsQuery = queryOptions({
  queryKey: ["reviews", "waiting"],
  staleTime: JUST_READ,
  refetchInterval: FALLBACK_INTERVAL,
  queryFn: () => unwrap(api.GET("/api/reviews", { params: { query: { waiting_for_me: true, limit: SHOWN } } })),
});

export function useWaitingCount(): number {
  return useQuery({ ...waitingReviewsQuery, select: ({ total }) => total }).data ?? 0;
}
