// Who is logged in with this browser, and how to log in and out.

import { queryOptions, useSuspenseQuery } from "@tanstack/react-query";
import { common } from "../messages/common";
import { api, setCsrfToken, setLeaving, unwrap } from "./client";
import { beginDrafts, forgetDrafts } from "./drafts";
import { ApiError } from "./errors";
import { announceLogOut, noteLogin } from "./login-keeper";
import type { components } from "./schema";

export type User = components["schemas"]["UserInfoAnswer"];
export type LoginStep = components["schemas"]["LoginAnswer"];
export type StepUpChallenge = components["schemas"]["StepUpChallengeAnswer"];
type StepUpProof = components["schemas"]["StepUpRequest"];
export type FactorKind = components["schemas"]["FactorKind"];
export type LoginMethods = components["schemas"]["PublicServerInfoAnswer"];

/** The organisation asks for a second factor, and this user has none yet: nothing else works before. */
export class FactorRequired extends ApiError {
  constructor() {
    super(403, "your organisation requires a second factor; add one first", "");
    this.name = "FactorRequired";
  }
}

/**
 * The user of this browser, or null without a login. Reading it also renews the CSRF token. Throws FactorRequired if
 * the user has to add a second factor first.
 */
export const userQuery = queryOptions({
  queryKey: ["user"],
  staleTime: 60_000,
  queryFn: async (): Promise<User | null> => {
    try {
      const answered = api.GET("/api/userinfo"); // while the login is read
      answered.catch(() => {}); // a gateway that is away is told of by the other request
      const session = await unwrap(api.GET("/api/login/session"));
      noteLogin(session);
      if (session.must_enrol_second_factor) throw new FactorRequired();
      const user = await unwrap(answered);
      void beginDrafts(user.id);
      return user;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  },
});

/** The user of a screen that needs a login. */
export function useUser(): User {
  const { data: user } = useSuspenseQuery(userQuery);
  if (user === null) throw new Error("this screen needs a login");
  return user;
}

export const loginMethodsQuery = (organization: string) =>
  queryOptions({
    queryKey: ["login methods", organization],
    queryFn: () =>
      unwrap(api.GET("/api/publicserverinfo", { params: { query: organization ? { organization } : {} } })),
  });

export function logIn(email: string, password: string, organization: string): Promise<LoginStep> {
  const body = { email, password, organization: organization || null };
  return unwrap(api.POST("/api/localauth/login", { params: { query: { session: "cookie" } }, body }));
}

export function sendFactor(ticket: string, kind: FactorKind, answer: string | object): Promise<LoginStep> {
  const proof = typeof answer === "string" ? { code: answer } : { assertion: answer as Record<string, unknown> };
  const body = { ticket, kind, ...proof };
  return unwrap(api.POST("/api/localauth/second-factor", { params: { query: { session: "cookie" } }, body }));
}

/** Ask a security key of the user for a proof. `options` are those that the gateway sent. */
export async function askSecurityKey(options: unknown): Promise<Record<string, unknown>> {
  try {
    const request = options as PublicKeyCredentialRequestOptionsJSON;
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(request);
    const credential = await navigator.credentials.get({ publicKey });
    if (credential instanceof PublicKeyCredential) return credential.toJSON() as unknown as Record<string, unknown>;
  } catch {
    // Browsers say too little about the reason to be useful: the user cancelled, or the key is not of this account.
  }
  throw new Error(common.factor.keyRefused);
}

/** What the user has to prove before something for which being logged in is not enough. */
export function beginStepUp(): Promise<StepUpChallenge> {
  return unwrap(api.POST("/api/login/step-up/challenge"));
}

/** Prove once more who the user is. The login then counts as fresh for ten minutes. */
export async function stepUp(proof: StepUpProof): Promise<void> {
  await unwrap(api.POST("/api/login/step-up", { body: proof }));
}

export function setUp(token: string, password: string, name: string): Promise<LoginStep> {
  const body = { token, password, name: name || null };
  return unwrap(api.POST("/api/localauth/setup", { params: { query: { session: "cookie" } }, body }));
}

/** Return the address at the identity provider where the browser logs in; it comes back to `next`. */
export async function providerUrl(method: "oidc" | "saml", next: string, organization: string): Promise<string> {
  const query = { redirect: new URL(next, window.location.origin).href, ...(organization ? { organization } : {}) };
  const path = method === "oidc" ? "/api/login" : "/api/saml/login";
  return (await unwrap(api.GET(path, { params: { query } }))).login_url;
}

export const logOut = () => endLogin(api.POST("/api/logout"));

/** Create new keys for login tokens: this browser's login ends with all others. */
export const endAllLogins = () => endLogin(api.POST("/api/serverconfig/token-keys/rotate", { body: { revoke: true } }));

const LONGEST_FORGETTING = 1_000; // milliseconds

/** Wait for a request that ends this browser's login. From now on events cause no reading with it. */
async function endLogin(pending: Parameters<typeof unwrap>[0]): Promise<void> {
  setLeaving(true);
  try {
    await unwrap(pending);
    setCsrfToken(null);
    announceLogOut();
    // The gateway's answer has the browser clear its storage, too, which meanwhile may not answer.
    await Promise.race([forgetDrafts(), new Promise((resolve) => setTimeout(resolve, LONGEST_FORGETTING))]);
  } finally {
    setLeaving(false);
  }
}
