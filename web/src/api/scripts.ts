// Running a script, and what comes of it: results, an error, or a review that it waits for.

import { queryOptions } from "@tanstack/react-query";
import { PROTOCOLS } from "../engines/protocols";
import {
  type ResultLine,
  type ResultStream,
  type ShownResult,
  type StatementResult,
  shownResult,
} from "../engines/results";
import { api, unwrap } from "./client";
import { ApiError } from "./errors";
import { readLines } from "./lines";
import type { components } from "./schema";

export type Execution = components["schemas"]["ExecAnswer"];
export type ScriptError = NonNullable<Execution["error"]>;

const FIRST_WAIT = "wait=2"; // seconds that an answer may take; a longer script is asked for again
const AT_ONCE = "wait=0"; // for scripts whose rows are read while they run
const NEXT_WAIT = 20; // seconds

/** Return how long the first answer of a script may take. `atOnce`: its rows are read while it runs. */
export function firstWait(atOnce: boolean): string {
  return atOnce ? AT_ONCE : FIRST_WAIT;
}

/** Return the state of a run. The client's types make lists of its tuples. */
export function execution(pending: Parameters<typeof unwrap>[0]): Promise<Execution> {
  return unwrap(pending) as Promise<Execution>;
}

/** What to run: `parameters` are the values of placeholders `:name`. */
export interface Script {
  connection: string;
  script: string;
  reason: string;
  parameters?: Record<string, string | null>;
}

/** Whether scripts on a connection of this subtype return rows, which `followResults` reads while they run. */
export function returnsRows(subtype: string): boolean {
  return factsOf(subtype)?.hasRows ?? false;
}

/** Whether sessions of this subtype are HTTP exchanges, which can be downloaded as an HTTP archive. */
export function isHttp(subtype: string): boolean {
  return subtype === "httpproxy";
}

/** Whether connections of this subtype only pass bytes on: no scripts, and a local port or a certificate to connect. */
export function isOpaque(subtype: string): boolean {
  return factsOf(subtype)?.isOpaque ?? false;
}

function factsOf(subtype: string) {
  return PROTOCOLS[subtype as keyof typeof PROTOCOLS] as { hasRows: boolean; isOpaque: boolean } | undefined;
}

/** Whether sessions of this subtype show what a terminal would. */
export function isTerminal(subtype: string): boolean {
  return !returnsRows(subtype) && !isOpaque(subtype);
}

/** Whether the script of a session returns rows. */
export async function sessionReturnsRows(id: string): Promise<boolean> {
  const session = await unwrap(api.GET("/api/sessions/{session_id}", { params: { path: { session_id: id } } }));
  return returnsRows((session as { connection_subtype: string }).connection_subtype);
}

/** Start a script, whose rows `followResults` reads. */
export function startScript(script: Script): Promise<Execution> {
  const body = { ...script, format: "json" as const };
  return execution(api.POST("/api/sessions", { params: { header: { prefer: AT_ONCE } }, body }));
}

/** Return the state of a script, once it has changed or `seconds` have passed. */
export function followScript(id: string, seconds = NEXT_WAIT): Promise<Execution> {
  const params = { path: { session_id: id }, header: { prefer: `wait=${seconds}` } };
  return execution(api.GET("/api/sessions/{session_id}/exec", { params }));
}

/** Run a script whose review is approved. `atOnce`: return as soon as it runs. */
export function continueScript(id: string, atOnce = false): Promise<Execution> {
  const params = { path: { session_id: id }, header: { prefer: firstWait(atOnce) } };
  return execution(api.POST("/api/sessions/{session_id}/exec", { params }));
}

export async function stopScript(id: string): Promise<void> {
  await unwrap(api.POST("/api/sessions/{session_id}/kill", { params: { path: { session_id: id } } }));
}

// Milliseconds until a page notices that a statement is held. Most scripts have ended before the first.
const FIRST_NOTICES_HELD = 500;
const NOTICES_HELD = 2_000;

/** The review that a statement of a running script waits for, or null. A script has one at a time. */
export const heldStatementQuery = (session: string) =>
  queryOptions({
    queryKey: ["reviews", "held", session],
    initialData: null,
    staleTime: FIRST_NOTICES_HELD,
    refetchInterval: ({ state }) => (state.dataUpdateCount === 0 ? FIRST_NOTICES_HELD : NOTICES_HELD),
    queryFn: async () => {
      const query = { session, status: "PENDING" as const, limit: 1 };
      return (await unwrap(api.GET("/api/reviews", { params: { query } }))).data[0] ?? null;
    },
  });

export async function withdrawReview(id: string): Promise<void> {
  await unwrap(api.POST("/api/reviews/{id}/withdraw", { params: { path: { id } } }));
}

/** Read the results of a script that has ended. */
export async function readResults(id: string): Promise<ShownResult[]> {
  const params = { path: { session_id: id }, query: { format: "json" as const } };
  const results = await unwrap(api.GET("/api/sessions/{session_id}/results", { params }));
  return (results as unknown as StatementResult[]).map(shownResult);
}

const SILENCE = 40_000; // milliseconds; the gateway sends a line every 15 seconds
const RETRIES = [250, 1_000, 2_000, 5_000, 10_000]; // milliseconds before each further attempt; the last one again
const MAX_ATTEMPTS = 30; // in a row that brought no line
const TOO_MANY = 429;

/**
 * Read results while the script runs, until it has ended: `onLines` is called after each line. A stream that breaks is
 * continued where it broke; while the user has too many of them it is tried again, as the script runs all the same.
 */
export async function followResults(
  id: string,
  results: ResultStream,
  onLine: () => void,
  signal: AbortSignal,
): Promise<void> {
  let failures = 0;
  const count = () => {
    failures = 0;
    onLine();
  };
  while (!results.isOver && !signal.aborted) {
    try {
      await readStream(id, results, count, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!canTryAgain(error) || failures >= MAX_ATTEMPTS) throw error;
    }
    if (results.isOver) return;
    await pause(RETRIES[Math.min(failures, RETRIES.length - 1)] ?? 0, signal);
    failures += 1;
  }
}

async function readStream(id: string, results: ResultStream, onLine: () => void, signal: AbortSignal): Promise<void> {
  const silence = new AbortController();
  const own = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE);
  try {
    const query = { format: "ndjson" as const, follow: true, from_row: results.from };
    const params = { path: { session_id: id }, query };
    const answer = unwrap(api.GET("/api/sessions/{session_id}/results", { params, parseAs: "stream", signal: own }));
    const stream = (await answer) as unknown as ReadableStream<Uint8Array>;
    results.begin();
    for await (const line of readLines<ResultLine>(stream)) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE);
      results.add(line);
      onLine();
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Whether an error is that of a connection or of the moment. One that is about the script would come again. */
function canTryAgain(error: unknown): boolean {
  if (error instanceof ApiError) return error.status === TOO_MANY || error.status >= 500;
  return true;
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

export type Preview = components["schemas"]["ScriptPreviewAnswer"];

/** Ask what would be refused, held or warned about if the script ran now. Nothing runs. */
export function previewScript({ connection, script, parameters }: Omit<Script, "reason">): Promise<Preview> {
  const params = { path: { nameOrID: connection } };
  const body = { script, ...(parameters && { parameters }) };
  return unwrap(api.POST("/api/connections/{nameOrID}/preview", { params, body }));
}

export type Schema = components["schemas"]["WholeSchemaAnswer"];

export const schemaQuery = (connection: string) =>
  queryOptions({
    queryKey: ["schema", connection],
    staleTime: 60_000,
    retry: false,
    queryFn: () =>
      unwrap(api.GET("/api/connections/{nameOrID}/schema", { params: { path: { nameOrID: connection } } })),
  });
