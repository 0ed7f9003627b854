import { endOfDay, isDate, ownZone, startOfDay } from "../../engines/periods";
import { textsOf } from "../../engines/search";

const NAMES = [
  ...(["actor", "action", "type", "resource", "outcome", "method", "path", "code"] as const),
  ...(["ip", "from", "to"] as const),
] as const;

export type AuditFilter = (typeof NAMES)[number];

/** What the list is narrowed to; the address says it, so that it can be sent to others. */
export type AuditSearch = { [name in AuditFilter | "columns"]?: string };

export const METHODS = ["POST", "PUT", "PATCH", "DELETE", "GET", "COMMAND", "CONTROL"] as const;

export function auditSearch(search: Record<string, unknown>): AuditSearch {
  const { from, to, outcome, code, ...texts } = textsOf(search, [...NAMES, "columns"]);
  return {
    ...texts,
    ...(isDate(from) && { from }),
    ...(isDate(to) && { to }),
    ...((outcome === "success" || outcome === "failure") && { outcome }),
    ...(code && /^[1-5]\d\d$/.test(code) && { code }),
  };
}

/** Return the query of the API for these filters. Days are those of the reader's time zone. */
export function auditQuery({ actor, action, type, resource, outcome, method, path, code, ip, from, to }: AuditSearch) {
  return {
    ...(actor && { actor_email: actor }),
    ...(action && { action }),
    ...(type && { resource_type: type }),
    ...(resource && { resource }),
    ...(outcome && { outcome: outcome as "success" | "failure" }),
    ...(method && { http_method: method }),
    ...(path && { http_path: path }),
    ...(code && { http_status: Number(code) }),
    ...(ip && { client_ip: ip }),
    ...(from && { created_after: startOfDay(from, ownZone()) }),
    ...(to && { created_before: endOfDay(to, ownZone()) }),
  };
}
