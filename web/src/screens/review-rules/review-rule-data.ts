// Review rules of the API, and what a form edits.

import { resource } from "../../api/resource";
import type { components } from "../../api/schema";
import { tagsOf } from "../../engines/coverage";

export type ReviewRule = components["schemas"]["ReviewRuleAnswer"];
type Body = components["schemas"]["ReviewRuleRequest"];

/** Whom a rule is about: the API has two lists of groups, of which one at most is used. */
export type Who = "everybody" | "except" | "only";

export interface Draft {
  name: string;
  description: string;
  access_type: ReviewRule["access_type"];
  connection_names: string[];
  tags: [string, string][];
  who: Who;
  groups: string[];
  reviewers_groups: string[];
  all_groups_must_approve: boolean;
  min_approvals: number | null;
  force_approval_groups: string[];
  minutes: number | null;
}

const MINUTE = 60; // seconds

export const reviewRules = resource<ReviewRule, Body>("/api/access-requests/rules");

export const BLANK: Draft = {
  name: "",
  description: "",
  access_type: "jit_command",
  connection_names: [],
  tags: [],
  who: "everybody",
  groups: [],
  reviewers_groups: [],
  all_groups_must_approve: false,
  min_approvals: 1,
  force_approval_groups: [],
  minutes: null,
};

export function draftOf(saved: ReviewRule): Draft {
  const { approval_required_groups: required, skip_review_groups: skip, access_max_duration: seconds } = saved;
  return {
    name: saved.name,
    description: saved.description,
    access_type: saved.access_type,
    connection_names: saved.connection_names,
    tags: Object.entries(saved.connection_tags),
    who: required.length > 0 ? "only" : skip.length > 0 ? "except" : "everybody",
    groups: required.length > 0 ? required : skip,
    reviewers_groups: saved.reviewers_groups,
    all_groups_must_approve: saved.all_groups_must_approve,
    min_approvals: saved.min_approvals,
    force_approval_groups: saved.force_approval_groups,
    minutes: seconds === null ? null : seconds / MINUTE,
  };
}

export function requestOf(draft: Draft): Body {
  const { who, groups, tags, minutes, ...rest } = draft;
  return {
    ...rest,
    connection_tags: tagsOf(tags),
    approval_required_groups: who === "only" ? groups : [],
    skip_review_groups: who === "except" ? groups : [],
    access_max_duration: minutes === null ? null : Math.round(minutes * MINUTE),
  };
}
