// Names to choose from in forms: groups, agents, rules, users. Those of connections are in lists.ts.

import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "./client";
import { readAll } from "./pages";

interface Named {
  id: string;
  name: string;
}

type NamedPath =
  | "/api/agents"
  | "/api/guardrails"
  | "/api/serviceaccounts"
  | "/api/users"
  | "/api/users/groups"
  | "/api/integrations/tracker/issuetemplates";

/** What names a row, where that is not its name. */
const NAME_FIELDS: Partial<Record<NamedPath, "email" | "subject">> = {
  "/api/serviceaccounts": "subject",
  "/api/users": "email",
};

/** What has a name and is listed at `path`. */
export const namedQuery = (path: NamedPath) =>
  queryOptions({
    queryKey: [path, "names"],
    staleTime: 30_000,
    queryFn: async (): Promise<Named[]> => {
      const get = api.GET as (path: string, options: object) => ReturnType<typeof api.GET<"/api/agents", object>>;
      const rows = await readAll((query) => unwrap(get(path, { params: { query } })));
      const field = NAME_FIELDS[path];
      return rows.map((row) => ({
        id: row.id,
        name: field ? String((row as unknown as Record<string, unknown>)[field]) : row.name,
      }));
    },
  });

/** Return the named things at `path`, none as long as they are not loaded or may not be listed. */
export function useNamed(path: NamedPath): Named[] {
  return useQuery(namedQuery(path)).data ?? [];
}

/** Return their names only. */
export function useNames(path: NamedPath): string[] {
  return useNamed(path).map(({ name }) => name);
}
