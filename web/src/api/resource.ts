// Named resources, which the gateway manages all in one way: rules, groups, keys, agents, sinks and the like.

import { api, unwrap, unwrapVersioned, type Versioned } from "./client";
import type { Page, Place } from "./pages";
import type { paths } from "./schema";

export interface Resource<Item, Draft> {
  path: string;
  list: (place: Place, query?: Record<string, unknown>) => Promise<Page<Item>>;
  read: (name: string) => Promise<Versioned<Item>>;
  create: (draft: Draft) => Promise<Item>;
  /** Replace it, if nobody changed it since it was read: ApiError 412 otherwise. */
  replace: (name: string, draft: Draft, version: string) => Promise<Item>;
  change: (name: string, part: Partial<Draft>) => Promise<Item>;
  remove: (name: string, version?: string) => Promise<void>;
}

// Their paths differ only in their beginning, which the types of the paths cannot say: hence `Untyped`.
type Untyped = (path: string, options: object) => Promise<{ data?: unknown; error?: unknown; response: Response }>;
const { GET, POST, PUT, PATCH, DELETE } = api as unknown as Record<string, Untyped> as {
  [method in "GET" | "POST" | "PUT" | "PATCH" | "DELETE"]: Untyped;
};

/** What to name an item by in the path of its screen: its name, unless the path means the form for a new one. */
export function addressOf(item: { id: string; name: string }): string {
  return item.name === "new" ? item.id : item.name;
}

/**
 * The requests about one kind of resource, such as `resource<Guardrail, GuardrailDraft>("/api/guardrails")`. `removal`
 * is the query of its deletion, such as `force` for what is in use.
 */
export function resource<Item, Draft>(path: keyof paths & string, removal: object = {}): Resource<Item, Draft> {
  const one = `${path}/{name}`;
  const at = (name: string, version?: string, query: object = {}) => ({
    params: { path: { name }, query, header: version ? { "If-Match": version } : {} },
  });
  return {
    path,
    list: (place, query = {}) =>
      unwrap(GET(path, { params: { query: { ...place, ...query } } })) as Promise<Page<Item>>,
    read: (name) => unwrapVersioned(GET(one, at(name))) as Promise<Versioned<Item>>,
    create: (draft) => unwrap(POST(path, { body: draft })) as Promise<Item>,
    replace: (name, draft, version) => unwrap(PUT(one, { ...at(name, version), body: draft })) as Promise<Item>,
    change: (name, part) => unwrap(PATCH(one, { ...at(name), body: part })) as Promise<Item>,
    remove: async (name, version) => {
      await unwrap(DELETE(one, at(name, version, removal)));
    },
  };
}
