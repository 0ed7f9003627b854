// The screen of an object that a record names, if the application has one.

// The first part of an API's path → the part of the application's path before the object's name.
const SCREENS: Record<string, string> = {
  connections: "/connections",
  guardrails: "/guardrails",
  "datamasking-rules": "/masking",
  "access-rules": "/access-rules",
  "network-rules": "/network-rules",
  "federation-rules": "/people/federation-rules",
  "access-requests/rules": "/review-rules",
  users: "/people",
  agents: "/agents",
  sessions: "/sessions",
  reviews: "/reviews",
  "runbooks/rules": "/runbooks/rules",
  "runbooks/schedules": "/runbooks/schedules",
  sinks: "/integrations/sinks",
  "integrations/tracker/issuetemplates": "/integrations/templates",
};

interface Subject {
  http_path: string;
  resource: string;
  action: string;
}

/**
 * Return the address of the screen of the object that a request was about. `routes` are the patterns of the
 * application's addresses, such as `/guardrails/$name`. Null if it has no screen, or was deleted.
 */
export function screenOf({ http_path, resource, action }: Subject, routes: readonly string[]): string | null {
  const parts = http_path.replace(/^\/api\//, "").split("/");
  if (!http_path.startsWith("/api/")) return null;
  const kind = Object.keys(SCREENS).find((kind) => parts.slice(0, kind.split("/").length).join("/") === kind);
  if (kind === undefined) return null;
  const rest = parts.slice(kind.split("/").length);
  if (action === "delete" && rest.length <= 1) return null;
  const name = decoded(rest[0] ?? "") || resource;
  const folder = SCREENS[kind] ?? "";
  const hasScreen = routes.some(
    (route) => route.startsWith(`${folder}/$`) && !route.slice(folder.length + 1).includes("/"),
  );
  return name && hasScreen ? `${folder}/${encodeURIComponent(name)}` : null;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not as the gateway writes it
  }
}
