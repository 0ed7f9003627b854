/** What the gateway adds to the path after a login at a provider that failed. */
export const PROVIDER_FAILURE = ["error", "error_description"] as const;

const LONGEST_FAILURE = 500; // characters

/**
 * Return the path to go to after a login. Only a path of this application counts: anything else, such as
 * `//evil.example` or `/\evil.example`, leads home, so that a link cannot send users to another site.
 */
export function nextPath(wanted: string | undefined, origin: string): string {
  if (!wanted?.startsWith("/") || wanted.startsWith("//") || wanted.includes("\\")) return "/";
  const url = URL.canParse(wanted, origin) ? new URL(wanted, origin) : null;
  if (url === null || url.origin !== origin || url.pathname.startsWith("/api/")) return "/";
  for (const name of PROVIDER_FAILURE) if (url.searchParams.has(name)) url.searchParams.delete(name);
  return url.pathname + url.search + url.hash;
}

/** What the login needs of the page that a user wanted to open: its address, and the organisation that it names. */
export function loginSearch(wanted: string): { next: string; organization?: string } {
  const organization = queryOf(wanted).get("organization");
  return organization ? { next: wanted, organization } : { next: wanted };
}

/** Return why an identity provider sent the user back to this path without a login; empty if it did not. */
export function providerFailure(wanted: string | undefined): string {
  const query = queryOf(wanted);
  const [code, description] = PROVIDER_FAILURE.map((name) => query.get(name) ?? "");
  return (description || code || "").slice(0, LONGEST_FAILURE);
}

function queryOf(path: string | undefined): URLSearchParams {
  return new URLSearchParams(path?.split("#")[0]?.split("?")[1] ?? "");
}
