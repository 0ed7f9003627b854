// Federation rules of the API, and what a form edits.

import { resource } from "../../api/resource";
import type { components } from "../../api/schema";

export type FederationRule = components["schemas"]["FederationRuleAnswer"];
type Body = components["schemas"]["FederationRuleRequest"];

export interface Draft {
  name: string;
  description: string;
  service_account: string;
  issuer_url: string;
  audience: string;
  /** Claims with one accepted value each; a claim can be there several times. */
  claims: [string, string][];
  minutes: number | null;
  allow_admin: boolean;
  allow_reuse: boolean;
  /** Not edited here, and kept. */
  kept: Pick<Body, "algorithms" | "jwks">;
}

export const federationRules = resource<FederationRule, Body>("/api/federation-rules");

export const BLANK: Draft = {
  name: "",
  description: "",
  service_account: "",
  issuer_url: "",
  audience: "",
  claims: [["", ""]],
  minutes: null,
  allow_admin: false,
  allow_reuse: false,
  kept: {},
};

export function draftOf(rule: FederationRule): Draft {
  const { name, description, service_account, issuer_url, audience, allow_admin, allow_reuse, algorithms, jwks } = rule;
  return {
    ...{ name, description, service_account, issuer_url, audience, allow_admin, allow_reuse },
    claims: pairsOf(rule.claims),
    minutes: rule.login_duration_seconds / 60,
    kept: { algorithms, jwks },
  };
}

export function requestOf({ claims, minutes, kept, ...draft }: Draft): Body {
  const login_duration_seconds = minutes === null ? null : Math.round(minutes * 60);
  return { ...draft, ...kept, claims: claimsOf(claims), login_duration_seconds };
}

/** Return a row for each accepted value. */
export function pairsOf(claims: Record<string, string[]>): [string, string][] {
  return Object.entries(claims).flatMap(([name, values]) => values.map((value): [string, string] => [name, value]));
}

/** Return the accepted values of each claim, of rows that are filled in. */
export function claimsOf(pairs: readonly [string, string][]): Record<string, string[]> {
  const claims = new Map<string, string[]>();
  for (const [name, value] of pairs) {
    if (!name.trim() && !value.trim()) continue;
    claims.set(name.trim(), [...(claims.get(name.trim()) ?? []), value.trim()]);
  }
  return Object.fromEntries(claims);
}
