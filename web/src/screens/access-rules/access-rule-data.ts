// Access rules of the API, what a form edits, and the feature that makes them apply.

import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { readAll } from "../../api/pages";
import { resource } from "../../api/resource";
import type { components } from "../../api/schema";
import { tagsOf } from "../../engines/coverage";

export type AccessRule = components["schemas"]["AccessRuleAnswer"];
export type Explanation = components["schemas"]["ConnectionAccessAnswer"];
type Body = components["schemas"]["AccessRuleRequest"];

export interface Draft {
  name: string;
  description: string;
  groups: string[];
  connection_names: string[];
  tags: [string, string][];
}

export const accessRules = resource<AccessRule, Body>("/api/access-rules");

export const BLANK: Draft = { name: "", description: "", groups: [], connection_names: [], tags: [] };

export function draftOf({ name, description, groups, connection_names, connection_tags }: AccessRule): Draft {
  return { name, description, groups, connection_names, tags: Object.entries(connection_tags) };
}

export function requestOf({ tags, ...draft }: Draft): Body {
  return { ...draft, connection_tags: tagsOf(tags) };
}

/** All rules; there are 500 at most. */
export const allRulesQuery = queryOptions({
  queryKey: [accessRules.path, "all"],
  queryFn: () => readAll((place) => accessRules.list(place)),
});

const FEATURE = "access-control";

export const featureQuery = queryOptions({
  queryKey: ["features", FEATURE],
  queryFn: async () => {
    const features = await readAll((query) => unwrap(api.GET("/api/feature-flags", { params: { query } })));
    return features.find(({ name }) => name === FEATURE)?.enabled ?? false;
  },
});

export async function switchFeature(enabled: boolean): Promise<void> {
  await unwrap(api.PUT("/api/feature-flags/{name}", { params: { path: { name: FEATURE } }, body: { enabled } }));
}

export const explanationQuery = (connection: string, user: string) =>
  queryOptions({
    queryKey: [accessRules.path, "explanation", connection, user],
    enabled: connection !== "" && user !== "",
    retry: false,
    queryFn: () => {
      const params = { path: { nameOrID: connection }, query: { user } };
      return unwrap(api.GET("/api/connections/{nameOrID}/access", { params }));
    },
  });
