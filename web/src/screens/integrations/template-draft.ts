import { resource } from "../../api/resource";
import type { components } from "../../api/schema";

export type Template = components["schemas"]["IssueTemplateAnswer"];
export type Mapping = components["schemas"]["MappingBody"];
export type Prompt = components["schemas"]["PromptBody"];
export type Asset = components["schemas"]["CmdbBody"];

type Request = Omit<components["schemas"]["IssueTemplateRequest"], "managed_by">; // which stays as it is

/** All fields of a template: none is left out, so that a list that was emptied is empty. */
export type TemplateDraft = { [field in keyof Required<Request>]: NonNullable<Request[field]> };

export const templates = resource<Template, TemplateDraft>("/api/integrations/tracker/issuetemplates");

export const BLANK: TemplateDraft = {
  name: "",
  description: "",
  project_key: "",
  request_type_id: "",
  issue_transition_name_on_close: "",
  connection_ids: [],
  mapping_types: { items: [] },
  prompt_types: { items: [] },
  cmdb_types: { items: [] },
};

export function draftOfTemplate(template: Template): TemplateDraft {
  const { name, description, project_key, request_type_id, issue_transition_name_on_close } = template;
  const { connection_ids, mapping_types, prompt_types, cmdb_types } = template;
  return {
    ...{ name, description, project_key, request_type_id, issue_transition_name_on_close },
    ...{ connection_ids, mapping_types, prompt_types, cmdb_types },
  };
}

/** Values of a session that a field can be filled with, and `session.connection_tags.NAME`. */
export const PRESETS = [
  ...(["session.id", "session.user_email", "session.user_id", "session.user_name", "session.type"] as const),
  ...(["session.connection_subtype", "session.subtype", "session.connection", "session.status"] as const),
  ...(["session.script", "session.start_date", "session.webapp_link"] as const),
] as const;

/** Whether every field has what a template needs to be saved, but for its name: before, a preview has nothing to say. */
export function isComplete({ project_key, request_type_id, ...draft }: TemplateDraft): boolean {
  const needed = [
    ...[project_key, request_type_id],
    ...draft.mapping_types.items.flatMap(({ tracker_field, value }) => [tracker_field, value]),
    ...draft.prompt_types.items.flatMap(({ tracker_field, label }) => [tracker_field, label]),
    ...draft.cmdb_types.items.flatMap(({ tracker_field, tracker_object_type }) => [tracker_field, tracker_object_type]),
  ];
  return needed.every((text) => text.trim() !== "");
}

/** Return the fields that the user of a session is asked for. */
export function promptsOf({ prompt_types, cmdb_types }: TemplateDraft) {
  const prompts = prompt_types.items.map(({ tracker_field, label, field_type }) => ({
    ...{ field: tracker_field, label: label || tracker_field, isTime: field_type === "datetime-local" },
  }));
  const assets = cmdb_types.items
    .filter(({ value }) => !value)
    .map(({ tracker_field, tracker_object_type }) => ({
      ...{ field: tracker_field, label: tracker_object_type || tracker_field, isTime: false },
    }));
  const fields = new Map([...prompts, ...assets].map((prompt) => [prompt.field, prompt]));
  return [...fields.values()].filter(({ field }) => field !== "");
}
