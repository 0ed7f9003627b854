// Masking rules of the API, and what a form edits.

import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { resource } from "../../api/resource";
import type { components } from "../../api/schema";
import { type CustomType, nextKey, type Strategy, type Strictness, type TypeGroup } from "../../engines/masking-draft";

export type MaskingRule = components["schemas"]["MaskingRuleAnswer"];
export type Preset = components["schemas"]["MaskingPresetAnswer"];
type Body = components["schemas"]["MaskingRuleRequest"];

export interface Draft {
  name: string;
  description: string;
  connection_ids: string[];
  groups: TypeGroup[];
  customTypes: CustomType[];
  columns: string[];
  threshold: number;
  strategy: Strategy;
  strictness: Strictness;
}

// The form says which connections lose it before it is deleted, hence `force`.
export const maskingRules = resource<MaskingRule, Body>("/api/datamasking-rules", { force: true });

export const presetsQuery = queryOptions({
  queryKey: ["masking presets"],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: () => unwrap(api.GET("/api/datamasking-rules/presets")),
});

export const typesQuery = queryOptions({
  queryKey: ["information types"],
  staleTime: Number.POSITIVE_INFINITY,
  queryFn: () => unwrap(api.GET("/api/datamasking-rules/types")),
});

const DEFAULT_THRESHOLD = 0.5; // that of the gateway
const EMPTY: Draft = {
  name: "",
  description: "",
  connection_ids: [],
  groups: [],
  customTypes: [],
  columns: [],
  threshold: DEFAULT_THRESHOLD,
  strategy: "replace",
  strictness: "strict",
};

/** Return the form of a new rule: empty, or as the preset has it. */
export function blankDraft(preset: Preset | undefined): Draft {
  if (preset === undefined) return EMPTY;
  const { name, description, columns, strategy, strictness } = preset;
  return { ...EMPTY, name, description, columns, strategy, strictness, groups: groupsOf(preset) };
}

export function draftOf(saved: MaskingRule): Draft {
  const { name, description, connection_ids, columns, score_threshold, strategy, strictness } = saved;
  return {
    name,
    description,
    connection_ids,
    columns,
    threshold: score_threshold,
    strategy,
    strictness,
    groups: groupsOf(saved),
    customTypes: saved.custom_entity_types.map(({ name, regex, deny_list, score }) => ({
      key: nextKey(),
      name,
      hasWords: regex === null,
      regex: regex ?? "",
      words: deny_list ?? [],
      score,
    })),
  };
}

function groupsOf({ supported_entity_types }: Pick<Preset, "supported_entity_types">): TypeGroup[] {
  return supported_entity_types.map(({ name, entity_types }) => ({ key: nextKey(), name, types: entity_types }));
}

export function requestOf(draft: Draft): Body {
  return { ...ruleOf(draft), name: draft.name, connection_ids: draft.connection_ids };
}

/** Return a rule as trials take it: they need a name, which nobody has typed yet. */
export function ruleOf(draft: Draft): components["schemas"]["MaskingRuleBody"] {
  return {
    name: draft.name.trim() || "draft",
    description: draft.description,
    columns: draft.columns,
    score_threshold: draft.threshold,
    strategy: draft.strategy,
    strictness: draft.strictness,
    supported_entity_types: draft.groups.map(({ name, types }) => ({ name, entity_types: types })),
    custom_entity_types: draft.customTypes.map(({ name, hasWords, regex, words, score }) => ({
      name,
      score,
      ...(hasWords ? { deny_list: words } : { regex }),
    })),
  };
}
