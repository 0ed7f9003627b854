// How many reviews wait for the user's decision.

import { useQuery } from "@tanstack/react-query";
import { FALLBACK_INTERVAL } from "./changes";
import { api, unwrap } from "./client";

export function useWaitingCount(): number {
  const count = useQuery({
    queryKey: ["reviews", "count"],
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: async () =>
      (await unwrap(api.GET("/api/reviews", { params: { query: { waiting_for_me: true, limit: 1 } } }))).total,
  });
  return count.data ?? 0;
}
