// The typed client of the gateway's API: one login by cookie, a CSRF token on each write, errors in the API's own words.

import createClient, { type Middleware } from "openapi-fetch";
import { ApiError, GatewayUnreachable } from "./errors";
import type { paths } from "./schema";

const WRITES = new Set(["POST", "PUT", "PATCH", "DELETE"]);
const CSRF_HEADER = "X-CSRF-Token";
const LOGIN = "/api/login/session";

let csrfToken: string | null = null;
let isLeaving = false;
let pendingWrites = 0;
let lastWrite = 0;
let onLoggedOut: () => void = () => {};

export function setCsrfToken(token: string | null | undefined): void {
  csrfToken = token ?? null;
}

/** Whether this page is logged in, and its login is not ending: else the gateway would refuse what it reads. */
export function canRead(): boolean {
  return csrfToken !== null && !isLeaving;
}

/** Say whether the login of this page is ending. */
export function setLeaving(leaving: boolean): void {
  isLeaving = leaving;
}

/** Milliseconds since this page's last write was answered; 0 while one is on its way. */
export function timeSinceWrite(): number {
  return pendingWrites > 0 ? 0 : performance.now() - lastWrite;
}

/** Wait for a request that replaces this browser's login. Until then events cause no reading with the old one. */
export async function replaceLogin<Data>(pending: Promise<Data>): Promise<Data> {
  setLeaving(true);
  try {
    return await pending;
  } finally {
    setLeaving(false);
  }
}

/** Call `handler` each time the gateway answers that this browser is no longer logged in. */
export function handleLoggedOut(handler: () => void): void {
  onLoggedOut = handler;
}

const protection: Middleware = {
  onRequest({ request }) {
    if (WRITES.has(request.method) && csrfToken !== null) request.headers.set(CSRF_HEADER, csrfToken);
    return request;
  },
  onError() {
    return new GatewayUnreachable();
  },
};

export const api = createClient<paths>({ baseUrl: "/", credentials: "same-origin", fetch: fetchAndCount });
api.use(protection);

/** Send a request; `timeSinceWrite` knows of writes. */
async function fetchAndCount(request: Request): Promise<Response> {
  if (!WRITES.has(request.method)) return fetch(request);
  pendingWrites += 1;
  try {
    return await fetchWithToken(request);
  } finally {
    pendingWrites -= 1;
    lastWrite = performance.now();
  }
}

/** Another tab that renewed the login changed the CSRF token, too: read it again, and send the write once more. */
async function fetchWithToken(request: Request): Promise<Response> {
  if (csrfToken === null) return fetch(request);
  const sent = request.headers.get(CSRF_HEADER); // meanwhile something else can have read the new one
  const again = request.clone();
  const response = await fetch(request);
  if (response.status !== 403) return response;
  const renewed = (await readLogin())?.csrf_token ?? null;
  if (renewed === null || renewed === sent) return response;
  csrfToken = renewed;
  again.headers.set(CSRF_HEADER, renewed);
  return fetch(again);
}

interface Result<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** Return the data of an answer. Throws ApiError with the gateway's message, or GatewayUnreachable. */
export async function unwrap<Data>(pending: Promise<Result<Data>>): Promise<Data> {
  return (await unwrapVersioned(pending)).item;
}

/** What an answer has, and the version to name in the next write. */
export interface Versioned<Item> {
  item: Item;
  version: string;
}

export async function unwrapVersioned<Data>(pending: Promise<Result<Data>>): Promise<Versioned<Data>> {
  const { data, error, response } = await pending;
  if (response.ok) return { item: data as Data, version: response.headers.get("ETag") ?? "" };
  if (response.status === 401 && (response.url.endsWith(LOGIN) || (await readLogin()) === null)) onLoggedOut();
  const requestId = response.headers.get("X-Request-ID") ?? "";
  const code = response.headers.get("Postern-Error") ?? "";
  throw new ApiError(response.status, messageOf(error, response.status), requestId, code);
}

/**
 * Return the login of this browser, null without one. A wrong code is answered with 401, too, even with a login.
 * The answer is read whatever it is: one that is not read keeps its connection.
 */
async function readLogin(): Promise<{ csrf_token: string | null } | null> {
  try {
    const response = await fetch(LOGIN, { credentials: "same-origin" });
    const body = (await response.json()) as { csrf_token: string | null };
    return response.ok ? body : null;
  } catch {
    return null;
  }
}

function messageOf(body: unknown, status: number): string {
  if (typeof body === "object" && body !== null && "message" in body) return String(body.message);
  return `the gateway answered with status ${status}`;
}
