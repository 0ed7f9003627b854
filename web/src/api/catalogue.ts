// Connections with what the user may do with each, and when it was used.

import { queryOptions } from "@tanstack/react-query";
import { FALLBACK_INTERVAL } from "./changes";
import { api, unwrap } from "./client";
import type { components } from "./schema";

export type CatalogueRow = components["schemas"]["CatalogueAnswer"];
export type CatalogueAccess = components["schemas"]["CatalogueAccessAnswer"];
export type Use = keyof CatalogueAccess["uses"];

export const EXPAND = ["access", "activity"];

/** The connections with these identifiers that the user can see, in this order. */
export const connectionsById = (ids: readonly string[]) =>
  queryOptions({
    queryKey: ["connections", "by id", ids],
    enabled: ids.length > 0,
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: async () => {
      const query = { expand: EXPAND, connection_ids: ids.join(","), limit: ids.length };
      const { data } = await unwrap(api.GET("/api/connections", { params: { query } }));
      return ids.flatMap((id) => data.find((row) => row.id === id) ?? []);
    },
  });

/** Whether scripts can be written for it in the SQL editor. */
export function hasEditor({ type, access_mode_exec, access }: CatalogueRow): boolean {
  return type === "database" && access_mode_exec === "enabled" && (access?.uses.exec.allowed ?? true);
}

/** Whether the user can open it in a browser, at its `url`. */
export function opensInBrowser<Row extends CatalogueRow>(row: Row): row is Row & { url: string } {
  return row.url !== null && row.access_mode_connect === "enabled" && (row.access?.uses.connect.allowed ?? true);
}
