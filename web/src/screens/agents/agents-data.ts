import { useQuery } from "@tanstack/react-query";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import { readAll } from "../../api/pages";
import type { components } from "../../api/schema";

export type Agent = components["schemas"]["AgentAnswer"];
export type IssuedAgentKey = components["schemas"]["IssuedAgentKeyAnswer"];

export const AGENTS = "/api/agents";

/** One agent. It can come online at any time, which an event says. */
export function useAgent(name: string) {
  return useQuery({
    queryKey: [AGENTS, "one", name],
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: () => unwrap(api.GET("/api/agents/{nameOrID}", { params: { path: { nameOrID: name } } })),
  });
}

/** How many connections each agent serves, by its name; undefined until that is known. */
export function useConnectionCounts(): Map<string, number> | undefined {
  return useQuery({
    queryKey: [AGENTS, "connection counts"],
    queryFn: async () => {
      const connections = await readAll((query) => unwrap(api.GET("/api/connections", { params: { query } })));
      const counts = new Map<string, number>();
      for (const { agent_name } of connections) counts.set(agent_name, (counts.get(agent_name) ?? 0) + 1);
      return counts;
    },
  }).data;
}
