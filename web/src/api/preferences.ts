// The user's preferences, which are stored at the gateway for all their browsers.

import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type Preferences, preferencesOf, type StoredObject, withPreferences } from "../engines/preferences";
import { api, unwrapVersioned, type Versioned } from "./client";
import { ApiError } from "./errors";
import type { components } from "./schema";

type Body = Record<string, components["schemas"]["JsonValue"]>;
type Change = (before: Preferences) => Partial<Preferences>;

const TRIES = 4; // another browser of the user can change them at the same time

export const preferencesQuery = queryOptions({
  queryKey: ["preferences"],
  staleTime: 60_000,
  queryFn: async () => (await readStored()).item,
});

const NONE = preferencesOf({});

/** The user's preferences; the defaults until they are known. */
export function usePreferences(): Preferences {
  return useQuery({ ...preferencesQuery, select: preferencesOf }).data ?? NONE;
}

/** Whether they are known: before, nothing should be shown that they could hide. */
export function usePreferencesAreKnown(): boolean {
  return useQuery(preferencesQuery).isSuccess;
}

/** Change preferences: the page shows the change at once, and takes it back if it could not be stored. */
export function useChangePreferences() {
  const queries = useQueryClient();
  const { queryKey } = preferencesQuery;
  return useMutation({
    scope: { id: "preferences" },
    mutationFn: store,
    onMutate: async (change: Change) => {
      await queries.cancelQueries({ queryKey });
      queries.setQueryData<StoredObject>(queryKey, (stored = {}) =>
        withPreferences(stored, change(preferencesOf(stored))),
      );
    },
    onSuccess: (stored) => queries.setQueryData<StoredObject>(queryKey, stored),
    onError: () => queries.invalidateQueries({ queryKey }),
  });
}

function readStored(): Promise<Versioned<StoredObject>> {
  return unwrapVersioned(api.GET("/api/users/self/preferences"));
}

async function store(change: Change): Promise<StoredObject> {
  for (let tries = 1; ; tries += 1) {
    const { item, version } = await readStored();
    const body = withPreferences(item, change(preferencesOf(item))) as Body;
    try {
      return (
        await unwrapVersioned(
          api.PUT("/api/users/self/preferences", { params: { header: { "If-Match": version } }, body }),
        )
      ).item;
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 412 && tries < TRIES)) throw error;
    }
  }
}
