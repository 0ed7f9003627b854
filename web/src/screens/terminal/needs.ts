// What a terminal of a connection needs before it can be opened.

import { queryOptions, useQuery } from "@tanstack/react-query";
import { type User, useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { text } from "./messages";

export type Connection = components["schemas"]["ConnectionAnswer"];
type Access = components["schemas"]["ConnectionAccessAnswer"];
type Template = components["schemas"]["IssueTemplateAnswer"];
type Kind = components["schemas"]["ConnectionTypeAnswer"];

export interface Prompt {
  field: string;
  label: string;
  hint: string;
  isRequired: boolean;
}

export interface Needs {
  /** Why no terminal can be opened; null if one can. */
  hindrance: string | null;
  /** Whether an administrator can remove the hindrance in the connection's settings. */
  isSetting: boolean;
  /** The approval that it needs. */
  review: Access["reviews"][number] | null;
  /** Fields of the issue that it opens. */
  prompts: Prompt[];
}

const templateQuery = (id: string | null) =>
  queryOptions({
    queryKey: ["issue template", id],
    enabled: id !== null,
    queryFn: () =>
      unwrap(
        api.GET("/api/integrations/tracker/issuetemplates/{nameOrID}", { params: { path: { nameOrID: id ?? "" } } }),
      ),
  });

/** Read what a terminal needs; null until all of it is known. */
export function useNeeds(connection: Connection | undefined): { needs: Needs | null; error: Error | null } {
  const user = useUser();
  const kinds = useQuery({
    queryKey: ["connection types"],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () => unwrap(api.GET("/api/connection-types")),
  });
  const access = useQuery({
    queryKey: ["access", connection?.name],
    enabled: connection !== undefined,
    queryFn: () =>
      unwrap(api.GET("/api/connections/{nameOrID}/access", { params: { path: { nameOrID: connection?.name ?? "" } } })),
  });
  const templateId = connection?.tracker_issue_template_id ?? null;
  const template = useQuery(templateQuery(templateId));
  const error = kinds.error ?? access.error ?? template.error;
  const isMissing = templateId !== null && template.data === undefined;
  if (!connection || !kinds.data || !access.data || isMissing) return { needs: null, error };
  return { needs: needsOf(connection, kinds.data, access.data, template.data, user), error };
}

function needsOf(
  connection: Connection,
  kinds: Kind[],
  access: Access,
  template: Template | undefined,
  user: User,
): Needs {
  const review = access.reviews.find(({ verb, needed }) => verb === "connect" && needed) ?? null;
  return { ...hindranceOf(connection, kinds, access, user), review, prompts: template ? promptsOf(template) : [] };
}

function hindranceOf(
  connection: Connection,
  kinds: Kind[],
  access: Access,
  user: User,
): { hindrance: string | null; isSetting: boolean } {
  const kind = kinds.find(({ type, subtype }) => type === connection.type && subtype === connection.subtype);
  const hasTerminal = kind === undefined || !kind.has_protocol || kind.has_ssh_features;
  if (!hasTerminal) return { hindrance: text.noTerminal, isSetting: false };
  if (user.role === "auditor") return { hindrance: text.auditor, isSetting: false };
  if (connection.access_mode_connect !== "enabled") return { hindrance: text.noConnect, isSetting: true };
  if (connection.access_mode_web_terminal !== "enabled") return { hindrance: text.disabled, isSetting: true };
  return { hindrance: access.allowed ? null : access.reason, isSetting: false };
}

function promptsOf({ prompt_types, cmdb_types }: Template): Prompt[] {
  const hints = { text: "", select: text.selectHint, "datetime-local": text.dateHint };
  const prompts = prompt_types.items.map(({ tracker_field, label, description, field_type, required }) => ({
    field: tracker_field,
    label,
    hint: [description, hints[field_type]].filter(Boolean).join(" "),
    isRequired: required,
  }));
  const assets = cmdb_types.items
    .filter(({ value }) => !value)
    .map(({ tracker_field, tracker_object_type, description, required }) => ({
      field: tracker_field,
      label: text.asset(tracker_object_type),
      hint: description,
      isRequired: required,
    }));
  return [...prompts, ...assets];
}
