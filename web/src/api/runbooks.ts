// Runbooks that the user can run, what they would run, and running them.

import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "./client";
import { ApiError } from "./errors";
import type { components } from "./schema";
import { type Execution, execution, firstWait } from "./scripts";

export type Parameter = components["schemas"]["ParameterAnswer"];
export type Runbook = components["schemas"]["RunbookAnswer"];
export type RunbookItem = components["schemas"]["RunbookItem"];
export type RunbookRepository = components["schemas"]["RepositoryItem"];
export type RunbookList = components["schemas"]["RunbookListV2"];
export type Rendered = components["schemas"]["RunbookRenderAnswer"];

/** All runbooks that can run anywhere, or on one connection; null if the organisation has no repository. */
export const runbooksQuery = (search = "", connection = "") =>
  queryOptions({
    queryKey: ["runbooks", "list", search, connection],
    queryFn: async (): Promise<RunbookList | null> => {
      const query = { list_connections: true, ...(search && { search }), ...(connection && { connection }) };
      try {
        return await unwrap(api.GET("/api/runbooks", { params: { query } }));
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }
    },
  });

/** One runbook with its text and where the user can run it. */
export const runbookQuery = (repository: string, file: string) =>
  queryOptions({
    queryKey: ["runbooks", "one", repository, file],
    enabled: file !== "",
    queryFn: () => unwrap(api.GET("/api/runbooks/file", { params: { query: { repository, name: file } } })),
  });

/** A runbook with values for its parameters, on a connection. */
export interface Filling {
  repository: string;
  file: string;
  connection: string;
  parameters: Record<string, string>;
}

const bodyOf = ({ repository, file, connection, parameters }: Filling) => ({
  repository,
  file_name: file,
  connection_name: connection,
  parameters,
  reason: "",
  ref_hash: "",
});

/** Return what would run; nothing runs. */
export function renderRunbook(filling: Filling, signal: AbortSignal): Promise<Rendered> {
  const { reason: _, ...body } = bodyOf(filling);
  return unwrap(api.POST("/api/runbooks/render", { body, signal }));
}

export interface RunbookRequest extends Filling {
  reason: string;
  /** The commit that the user has read: if there is a newer one, nothing runs. */
  commit: string;
  /** Fields of the issue that the session opens. */
  issueFields: Record<string, string>;
  /** Whether the runbook returns rows, which are read while it runs. */
  returnsRows: boolean;
}

/** Start a runbook. */
export function startRunbook({
  reason,
  commit,
  issueFields,
  returnsRows,
  ...filling
}: RunbookRequest): Promise<Execution> {
  const body = {
    ...bodyOf(filling),
    reason,
    ref_hash: commit,
    format: "text" as const,
    ...(Object.keys(issueFields).length > 0 && { tracker_fields: issueFields }),
  };
  const params = { header: { prefer: firstWait(returnsRows) } };
  return execution(api.POST("/api/runbooks/exec", { params, body }));
}
