// Keeps this browser's login: one tab renews it while it is used, and a log-out in one tab is one in all.

import { mustRenew, type TokenLife } from "../engines/renewal";
import { api, setCsrfToken, unwrap } from "./client";
import { forgetDrafts } from "./drafts";
import type { components } from "./schema";

type LoginSession = components["schemas"]["LoginSessionAnswer"];

const CHANNEL = "postern login";
const LOCK = "postern renewal";
const OFTEN = 30_000; // milliseconds between two looks at the token's age
const USES = ["pointerdown", "keydown"] as const;

let life: TokenLife = { readAt: 0, expiresAt: null };
let usedAt = 0;
const channel = new BroadcastChannel(CHANNEL);

/** Take what the gateway says about this browser's login. */
export function noteLogin({ csrf_token, expires_at }: LoginSession): void {
  setCsrfToken(csrf_token);
  life = { readAt: Date.now(), expiresAt: expires_at === null ? null : Date.parse(expires_at) };
}

/** Say to the other tabs that this browser is no longer logged in. */
export function announceLogOut(): void {
  channel.postMessage("logged out");
}

/** Renew the login from now on; call `onLoggedOut` when another tab logs out. */
export function keepLogin(onLoggedOut: () => void): void {
  for (const use of USES) addEventListener(use, () => (usedAt = Date.now()), { capture: true, passive: true });
  channel.addEventListener("message", (event: MessageEvent<unknown>) => {
    if (event.data !== "logged out") return;
    void forgetDrafts(); // also what this tab stored after the other one removed them
    onLoggedOut();
  });
  setInterval(() => renewIfDue().catch(() => {}), OFTEN); // a gateway that is away is asked again
}

async function renewIfDue(): Promise<void> {
  if (document.hidden || !mustRenew(life, usedAt, Date.now())) return;
  await navigator.locks.request(LOCK, { ifAvailable: true }, async (lock) => {
    if (lock === null) return;
    const before = life.expiresAt;
    const session = await unwrap(api.GET("/api/login/session"));
    const wasRenewed = session.expires_at === null || Date.parse(session.expires_at) !== before;
    noteLogin(wasRenewed ? session : await unwrap(api.POST("/api/login/refresh")));
  });
}
