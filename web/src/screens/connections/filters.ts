import { choiceOf, textsOf } from "../../engines/search";

const TEXTS = ["search", "type", "subtype", "tags"] as const;
const STATUSES = ["online", "offline"] as const;

/** What the list of connections can be narrowed to; the address says it, so that it can be sent to others. */
export interface ConnectionSearch extends Partial<Record<(typeof TEXTS)[number], string>> {
  status?: (typeof STATUSES)[number];
}

export function connectionSearch(search: Record<string, unknown>): ConnectionSearch {
  return { ...textsOf(search, TEXTS), ...choiceOf(search, "status", STATUSES) };
}

/** Return the query of the API for these filters. */
export function connectionQuery({ tags, type, ...others }: ConnectionSearch) {
  return {
    ...others,
    ...(type && { type: type as "database" }), // the API says which types there are
    ...(tags && { tag_selector: tags }),
  };
}

/** The tags of the address, each as `key=value`. */
export function tagsOf({ tags }: ConnectionSearch): string[] {
  return tags?.split(",").filter(Boolean) ?? [];
}

/** Return the filters with other tags: all of them must match. */
export function withTags({ tags: _, ...others }: ConnectionSearch, tags: readonly string[]): ConnectionSearch {
  return tags.length > 0 ? { ...others, tags: tags.join(",") } : others;
}
