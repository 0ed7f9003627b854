// Network rules of the API, and what a form edits.

import { resource } from "../../api/resource";
import type { components } from "../../api/schema";
import { tagsOf } from "../../engines/coverage";

export type NetworkRule = components["schemas"]["NetworkRuleAnswer"];
type Body = components["schemas"]["NetworkRuleRequest"];

export interface Draft {
  name: string;
  description: string;
  enabled: boolean;
  allowed_networks: string[];
  groups: string[];
  connection_names: string[];
  tags: [string, string][];
}

export const networkRules = resource<NetworkRule, Body>("/api/network-rules");

export const BLANK: Draft = {
  name: "",
  description: "",
  enabled: true,
  allowed_networks: [],
  groups: [],
  connection_names: [],
  tags: [],
};

export function draftOf(rule: NetworkRule): Draft {
  const { name, description, enabled, allowed_networks, groups, connection_names, connection_tags } = rule;
  const tags = Object.entries(connection_tags);
  return { name, description, enabled, allowed_networks, groups, connection_names, tags };
}

export function requestOf({ tags, ...draft }: Draft): Body {
  return { ...draft, connection_tags: tagsOf(tags) };
}
