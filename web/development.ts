// The development server stands where the gateway does: under the policy of its page, and in front of its API.

import type { IncomingMessage } from "node:http";
import type { Plugin, ProxyOptions } from "vite";

const NONCE = crypto.randomUUID(); // one for as long as the server runs: pages are changed in place
const POLICY = "content-security-policy";

/** Serve pages under the gateway's own policy, so that what it forbids fails while it is written. */
export function underPolicyOf(gateway: string): Plugin {
  return {
    name: "policy-of-the-gateway",
    apply: "serve",
    config: () => ({ html: { cspNonce: NONCE } }),
    transformIndexHtml: { order: "pre", handler: (page) => page.replace(/^.*__(CSP_NONCE|API_URL)__.*\n/gm, "") },
    configureServer: ({ middlewares }) => {
      middlewares.use(async (request, response, next) => {
        if (!request.headers.accept?.includes("text/html")) return next();
        try {
          const { headers } = await fetch(gateway);
          response.setHeader(POLICY, forDevelopment(headers.get(POLICY) ?? ""));
          next();
        } catch (error) {
          next(new Error(`there is no gateway at ${gateway}; start it with make up`, { cause: error }));
        }
      });
    },
  };
}

/** The one inline script is Vite's, which replaces modules. */
function forDevelopment(policy: string): string {
  return policy.replace(/'nonce-[^']*'/, `'nonce-${NONCE}'`).replace("script-src", `script-src 'nonce-${NONCE}'`);
}

/** Ask the gateway, with WebSockets. What comes from this server's own pages is told to come from the gateway's. */
export function apiOf(gateway: string): ProxyOptions {
  const { origin } = new URL(gateway);
  const isOwn = ({ headers }: IncomingMessage) => headers.origin === `http://${headers.host}`;
  return {
    target: gateway,
    ws: true,
    configure: (proxy) => {
      proxy.on("proxyReq", (sent, request) => void (isOwn(request) && sent.setHeader("Origin", origin)));
      proxy.on("proxyReqWs", (sent, request) => void (isOwn(request) && sent.setHeader("Origin", origin)));
    },
  };
}
