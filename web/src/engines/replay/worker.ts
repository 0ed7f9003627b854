// Workers under a policy that asks for trusted addresses of scripts.

const OWN = "postern-worker"; // the only policy that the gateway's headers allow

interface Policies {
  createPolicy(
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ): { createScriptURL(url: string): URL };
}

/** Start a worker whose script is one of this application's own files. */
export function startWorker(url: URL): Worker {
  const policies = (globalThis as { trustedTypes?: Policies }).trustedTypes;
  policy ??= policies?.createPolicy(OWN, { createScriptURL: checkOwn }) ?? null;
  return new Worker(policy?.createScriptURL(url.href) ?? checkOwn(url.href), { type: "module" });
}

let policy: ReturnType<Policies["createPolicy"]> | null = null;

function checkOwn(url: string): string {
  const { origin, pathname } = new URL(url);
  if (origin === location.origin && pathname.startsWith("/assets/")) return url;
  throw new TypeError(`${url} is no worker of this application`);
}
