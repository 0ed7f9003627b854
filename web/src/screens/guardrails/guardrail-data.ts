// Guardrails of the API, and what a form edits.

import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { resource } from "../../api/resource";
import type { components } from "../../api/schema";
import { bodyOf, type Rule, ruleOf } from "../../engines/guardrail-rules";

export type Guardrail = components["schemas"]["GuardrailAnswer"];
export type Preset = components["schemas"]["PresetAnswer"];
type Body = components["schemas"]["GuardrailRequest"];

export interface Draft {
  name: string;
  description: string;
  enabled: boolean;
  connection_ids: string[];
  input: Rule[];
  output: Rule[];
}

// The form says which connections lose it before it is deleted, hence `force`.
export const guardrails = resource<Guardrail, Body>("/api/guardrails", { force: true });

export const presetsQuery = queryOptions({
  queryKey: ["guardrail presets"],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: () => unwrap(api.GET("/api/guardrails/presets")),
});

const EMPTY: Draft = { name: "", description: "", enabled: true, connection_ids: [], input: [], output: [] };

/** Return the form of a new guardrail: empty, or as the preset has it. */
export function blankDraft(preset: Preset | undefined): Draft {
  if (preset === undefined) return EMPTY;
  const { name, description, input, output } = preset;
  return { ...EMPTY, name, description, input: input.rules.map(ruleOf), output: output.rules.map(ruleOf) };
}

export function draftOf(saved: Guardrail): Draft {
  const { name, description, enabled, connection_ids, input, output } = saved;
  return {
    name,
    description,
    enabled,
    connection_ids,
    input: input.rules.map(ruleOf),
    output: output.rules.map(ruleOf),
  };
}

export function requestOf(draft: Draft): Body {
  return {
    ...draft,
    input: { rules: draft.input.map(bodyOf) },
    output: { rules: draft.output.map(bodyOf) },
  };
}

/** Return a draft as trials take it: one without a name is called a draft in what its author would be told. */
export function trialOf(draft: Draft): components["schemas"]["DraftBody"] {
  const { input, output } = requestOf(draft);
  return { name: draft.name.trim() || "draft", input: input ?? null, output: output ?? null };
}
