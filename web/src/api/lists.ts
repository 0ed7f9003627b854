// Whole lists, for choosing from and for saying what rules cover: connections, and their tags.

import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "./client";
import { readAll } from "./pages";
import type { components } from "./schema";

export type Connection = components["schemas"]["ConnectionAnswer"];

const FRESH = 30_000; // milliseconds for which a list is not read again

export const connectionsQuery = queryOptions({
  queryKey: ["choices", "connections"],
  staleTime: FRESH,
  queryFn: () => readAll((query) => unwrap(api.GET("/api/connections", { params: { query } }))),
});

export const tagsQuery = queryOptions({
  queryKey: ["choices", "tags"],
  staleTime: FRESH,
  queryFn: () => readAll((query) => unwrap(api.GET("/api/connection-tags", { params: { query } }))),
});

const NONE: never[] = [];

/** All connections that the user can see, in the order of their names; empty until they are read. */
export function useConnections(): Connection[] {
  return useQuery(connectionsQuery).data ?? NONE;
}

/** Their names only. */
export function useConnectionNames(): string[] {
  return useConnections().map(({ name }) => name);
}
