// Running a script, and what comes of it: results, an error, or a review that it waits for.

import { queryOptions } from "@tanstack/react-query";
import type { MaskedCells, ResultField } from "../engines/masks";
import { api, unwrap } from "./client";
import type { components } from "./schema";

export type Execution = components["schemas"]["ExecAnswer"];
export type ScriptError = NonNullable<Execution["error"]>;

/** The result of one statement, as the recording has it: after masking. */
export interface StatementResult {
  columns: string[];
  fields: ResultField[];
  masked: MaskedCells | null;
  rows: (string | null)[][];
  tag: string;
  notices: { severity: string; text: string }[];
  error: ScriptError | null;
  truncated: boolean;
}

export const FIRST_WAIT = "wait=2"; // seconds that an answer may take; a longer script is asked for again
const NEXT_WAIT = 20; // seconds

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

export function startScript(script: Script): Promise<Execution> {
  const body = { ...script, format: "json" as const };
  return execution(api.POST("/api/sessions", { params: { header: { prefer: FIRST_WAIT } }, body }));
}

/** Return the state of a script, once it has changed or `seconds` have passed. */
export function followScript(id: string, seconds = NEXT_WAIT): Promise<Execution> {
  const params = { path: { session_id: id }, header: { prefer: `wait=${seconds}` } };
  return execution(api.GET("/api/sessions/{session_id}/exec", { params }));
}

/** Run a script whose review is approved. */
export function continueScript(id: string): Promise<Execution> {
  const params = { path: { session_id: id }, header: { prefer: FIRST_WAIT } };
  return execution(api.POST("/api/sessions/{session_id}/exec", { params }));
}

export async function stopScript(id: string): Promise<void> {
  await unwrap(api.POST("/api/sessions/{session_id}/kill", { params: { path: { session_id: id } } }));
}

const NOTICES_HELD = 2_000; // milliseconds until a page notices that a statement is held

/** The review that a statement of a running script waits for, or null. A script has one at a time. */
export const heldStatementQuery = (session: string) =>
  queryOptions({
    queryKey: ["reviews", "held", session],
    refetchInterval: NOTICES_HELD,
    queryFn: async () => {
      const query = { session, status: "PENDING" as const, limit: 1 };
      return (await unwrap(api.GET("/api/reviews", { params: { query } }))).data[0] ?? null;
    },
  });

export async function withdrawReview(id: string): Promise<void> {
  await unwrap(api.POST("/api/reviews/{id}/withdraw", { params: { path: { id } } }));
}

export async function readResults(id: string): Promise<StatementResult[]> {
  const params = { path: { session_id: id }, query: { format: "json" as const } };
  return (await unwrap(api.GET("/api/sessions/{session_id}/results", { params }))) as unknown as StatementResult[];
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
