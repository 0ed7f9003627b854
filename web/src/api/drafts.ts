// Drafts of scripts, in this browser's IndexedDB. They can contain data, so they end with the login of their user.

import { type Draft, MOST_DRAFTS } from "../engines/sql/drafts";

const DATABASE = "postern drafts";
const STORE = "drafts";
const BY_USE = "use";
const PATIENCE = 500; // milliseconds until a draft counts as open in another tab; a page that is left needs a moment

let owner: string | null = null;
let opened: Promise<IDBDatabase> | null = null;

/** Keep drafts of this user from now on. Those of others are removed. */
export async function beginDrafts(user: string): Promise<void> {
  if (owner === user) return;
  owner = user;
  await inStore("readwrite", (store) => {
    store.delete(IDBKeyRange.upperBound([user], true));
    return store.delete(IDBKeyRange.lowerBound([user, []]));
  }).catch(() => {}); // the editor says if drafts cannot be kept
}

/** Remove all drafts, and keep none until a user is logged in. */
export async function forgetDrafts(): Promise<void> {
  owner = null;
  await inStore("readwrite", (store) => store.clear()).catch(() => {});
}

/** Whether this browser can keep drafts: without locks, two tabs would write over each other's. */
export function canKeepDrafts(): boolean {
  return "locks" in navigator && "indexedDB" in globalThis;
}

export interface Claimed {
  drafts: Draft[];
  /** Let other tabs open them. */
  releases: (() => void)[];
}

/** Return the drafts of a connection that no other tab has open. Until they are released, no other tab opens them. */
export async function claimDrafts(user: string, connection: string): Promise<Claimed> {
  await removeOldest(user);
  const range = IDBKeyRange.bound([user, connection], [user, connection, []]);
  const claims = new Map<string, (() => void) | null>();
  for (;;) {
    // Read again after each claim: the page that had the draft may have written it, or one more, before it released it.
    const stored: Draft[] = await inStore("readonly", (store) => store.getAll(range));
    const others = stored.map(({ id }) => id).filter((id) => !claims.has(id));
    if (others.length === 0) {
      const drafts = stored.filter(({ id }) => claims.get(id)).sort((a, b) => a.number - b.number);
      return { drafts, releases: [...claims.values()].filter((release) => release !== null) };
    }
    await Promise.all(others.map(async (id) => claims.set(id, await claimDraft(id))));
  }
}

/** Claim a draft for this page. Return what releases it, or null if another page has it. */
export function claimDraft(id: string): Promise<(() => void) | null> {
  return new Promise((resolve) => {
    const hold = () => new Promise<void>((release) => resolve(release));
    const signal = AbortSignal.timeout(PATIENCE);
    navigator.locks.request(`postern draft ${id}`, { signal }, hold).catch(() => resolve(null));
  });
}

export async function storeDraft(draft: Draft): Promise<void> {
  if (draft.user === owner) await inStore("readwrite", (store) => store.put(draft));
}

export async function removeDraft({ user, connection, id }: Draft): Promise<void> {
  if (user === owner) await inStore("readwrite", (store) => store.delete([user, connection, id]));
}

/** Remove the drafts of a user that were not used for longest, beyond the number that is kept. */
async function removeOldest(user: string): Promise<void> {
  const range = IDBKeyRange.bound([user], [user, []]);
  const keys = await inStore("readonly", (store) => store.index(BY_USE).getAllKeys(range));
  for (const key of keys.slice(0, -MOST_DRAFTS)) await inStore("readwrite", (store) => store.delete(key));
}

/**
 * Return the answer to one request. The transaction is committed at once, so that it is also done if the page goes. A
 * browser that clears the data of this address closes the database; it is opened again.
 */
async function inStore<Answer>(
  mode: IDBTransactionMode,
  request: (store: IDBObjectStore) => IDBRequest<Answer>,
): Promise<Answer> {
  const transaction = await begin(mode);
  const asked = request(transaction.objectStore(STORE));
  transaction.commit();
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(asked.result);
    transaction.onabort = () => reject(transaction.error ?? new Error("the browser stopped storing drafts"));
  });
}

async function begin(mode: IDBTransactionMode): Promise<IDBTransaction> {
  const database = await open();
  try {
    return database.transaction(STORE, mode);
  } catch {
    opened = null;
    return (await open()).transaction(STORE, mode);
  }
}

function open(): Promise<IDBDatabase> {
  opened ??= openDatabase().catch((error: unknown) => {
    opened = null;
    throw error;
  });
  return opened;
}

function openDatabase(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      const store = request.result.createObjectStore(STORE, { keyPath: ["user", "connection", "id"] });
      store.createIndex(BY_USE, ["user", "usedAt"]);
    };
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const database = request.result;
      database.onclose = () => (opened = null);
      database.onversionchange = () => {
        opened = null;
        database.close();
      };
      resolve(database);
    };
  });
}
