// Schedules, rules and repositories of the API, and what their forms edit.

import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { readAll } from "../../api/pages";
import { resource } from "../../api/resource";
import type { components } from "../../api/schema";
import { isSshAddress } from "../../engines/runbooks";

export type Schedule = components["schemas"]["RunbookScheduleAnswer"];
type ScheduleBody = components["schemas"]["RunbookScheduleRequest"];
export type Rule = components["schemas"]["RunbookRuleAnswer"];
type RuleBody = components["schemas"]["RunbookRuleRequest"];
export type Repository = components["schemas"]["RepositoryAnswer"];
type RepositoryBody = components["schemas"]["RepositoryRequest"];

export const schedules = resource<Schedule, ScheduleBody>("/api/runbooks/schedules");
export const rules = resource<Rule, RuleBody>("/api/runbooks/rules");
export const repositories = resource<Repository, RepositoryBody>("/api/runbooks/configurations");

export interface ScheduleDraft {
  name: string;
  repository: string;
  file: string;
  connection: string;
  cron: string;
  zone: string;
  enabled: boolean;
  /** New values for all parameters; null keeps those that are stored. */
  parameters: Record<string, string> | null;
  /** Likewise. */
  issueFields: [string, string][] | null;
}

export function blankSchedule(zone: string): ScheduleDraft {
  return {
    ...{ name: "", repository: "", file: "", connection: "", cron: "", zone, enabled: true },
    ...{ parameters: {}, issueFields: null },
  };
}

export function scheduleDraft(schedule: Schedule): ScheduleDraft {
  const { name, repository, file_name, connection_name, cron, timezone, enabled } = schedule;
  const times = { cron, zone: timezone, enabled };
  const runbook = { repository, file: file_name, connection: connection_name };
  return { name, ...runbook, ...times, parameters: null, issueFields: null };
}

export function scheduleBody(draft: ScheduleDraft): ScheduleBody {
  const { name, repository, file, connection, cron, zone, enabled, parameters, issueFields } = draft;
  const fields = issueFields?.filter(([field]) => field.trim());
  return {
    ...{ name, file_name: file, connection_name: connection, cron: cron.trim(), timezone: zone, enabled },
    ...(repository && { repository }),
    ...(parameters && { parameters: Object.fromEntries(Object.entries(parameters).filter(([, value]) => value)) }),
    ...(fields && { tracker_fields: Object.fromEntries(fields) }),
  };
}

const OFTEN = 10_000; // milliseconds between two requests: a schedule runs at any time

/** A schedule with its runs so far, read apart from its form, where it would take away what is being typed. */
export const statusQuery = (name: string) =>
  queryOptions({
    queryKey: [schedules.path, "status", name],
    refetchInterval: OFTEN,
    queryFn: async () => (await schedules.read(name)).item,
  });

/** The next times of a cron expression, and the expression in words. */
export const timesQuery = (cron: string, timezone: string) =>
  queryOptions({
    queryKey: ["schedule times", cron, timezone],
    enabled: cron !== "" && timezone !== "",
    retry: false,
    queryFn: () => unwrap(api.GET("/api/runbooks/schedule-times", { params: { query: { cron, timezone } } })),
  });

export interface RuleDraft {
  name: string;
  description: string;
  runbooks: { repository: string; name: string }[];
  connections: string[];
  groups: string[];
}

export const BLANK_RULE: RuleDraft = {
  ...{ name: "", description: "", connections: [], groups: [] },
  runbooks: [{ repository: "", name: "" }],
};

export function ruleDraft({ name, description, runbooks, connections, user_groups }: Rule): RuleDraft {
  return { name, description, runbooks, connections, groups: user_groups };
}

export function ruleBody({ groups, ...draft }: RuleDraft): RuleBody {
  return { ...draft, user_groups: groups };
}

/** All repositories; there are 20 at most. */
export const repositoriesQuery = queryOptions({
  queryKey: [repositories.path, "all"],
  queryFn: () => readAll((place) => repositories.list(place)),
});

export type SecretName = "git_password" | "ssh_key" | "ssh_keypass";

export interface RepositoryDraft {
  url: string;
  branch: string;
  user: string;
  sshUser: string;
  knownHosts: string;
  hookTtl: number | null;
  /** What is typed; empty keeps what is stored. */
  secrets: Record<SecretName, string>;
  /** Stored secrets to delete. */
  forgotten: SecretName[];
}

export const BLANK_REPOSITORY: RepositoryDraft = {
  ...{ url: "", branch: "", user: "", sshUser: "", knownHosts: "", hookTtl: 0 },
  ...{ secrets: { git_password: "", ssh_key: "", ssh_keypass: "" }, forgotten: [] },
};

export function repositoryDraft(saved: Repository): RepositoryDraft {
  const { git_url, git_branch, git_user, ssh_user, ssh_known_hosts, git_hook_ttl } = saved;
  const plain = { url: git_url, branch: git_branch, user: git_user, sshUser: ssh_user, knownHosts: ssh_known_hosts };
  return { ...BLANK_REPOSITORY, ...plain, hookTtl: git_hook_ttl };
}

export function repositoryBody(draft: RepositoryDraft): RepositoryBody {
  const { url, branch, user, sshUser, knownHosts, hookTtl, secrets, forgotten } = draft;
  const isSsh = isSshAddress(url.trim());
  const names: SecretName[] = isSsh ? ["ssh_key", "ssh_keypass"] : ["git_password"];
  const typed = names.filter((name) => secrets[name] !== "").map((name) => [name, secrets[name]] as const);
  return {
    ...{ git_url: url.trim(), git_branch: branch, git_hook_ttl: hookTtl ?? 0 },
    ...(isSsh ? { ssh_user: sshUser, ssh_known_hosts: knownHosts } : { git_user: user }),
    ...Object.fromEntries(forgotten.map((name) => [name, ""])),
    ...Object.fromEntries(typed),
  };
}
