import { resource } from "../../api/resource";
import type { components } from "../../api/schema";

export type Template = components["schemas"]["IssueTemplateAnswer"];
export type Mapping = components["schemas"]["MappingBody"];
export type Prompt = components["schemas"]["PromptBody"];
export type Asset = components["schemas"]["CmdbBody"];

type Request = components["schemas"]["IssueTemplateRequest"];

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
