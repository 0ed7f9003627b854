// The user's own second factors.

import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { text } from "./messages";

export type Enrolment = components["schemas"]["EnrolmentAnswer"];
export type Proof = Partial<components["schemas"]["ProofRequest"]>;
export type NewKind = "totp" | "webauthn";

export const factorsQuery = queryOptions({
  queryKey: ["second factors"],
  queryFn: () => unwrap(api.GET("/api/users/self/second-factors")),
});

export function beginFactor(kind: NewKind, name: string, proof: Proof): Promise<Enrolment> {
  const body = { code_kind: "totp" as const, ...proof, kind, name };
  return unwrap(api.POST("/api/users/self/second-factors", { body }));
}

/** Confirm an authenticator app by a code that it shows. Returns recovery codes with the first factor. */
export async function confirmApp(id: string, code: string): Promise<string[]> {
  return confirm(id, { code });
}

/** Let the browser make a key pair in a security key, and register it. Returns recovery codes with the first factor. */
export async function registerKey(enrolment: Enrolment): Promise<string[]> {
  const options = enrolment.webauthn as unknown as PublicKeyCredentialCreationOptionsJSON;
  return confirm(enrolment.id, { credential: await createCredential(options) });
}

export async function removeFactor(id: string, proof: Proof): Promise<void> {
  const params = { path: { factor_id: id } };
  const body = { code_kind: "totp" as const, ...proof };
  await unwrap(api.DELETE("/api/users/self/second-factors/{factor_id}", { params, body }));
}

export async function newRecoveryCodes(proof: Proof): Promise<string[]> {
  const body = { code_kind: "totp" as const, ...proof };
  return (await unwrap(api.POST("/api/users/self/second-factors/recovery-codes", { body }))).recovery_codes;
}

async function confirm(id: string, body: { code?: string; credential?: Record<string, unknown> }): Promise<string[]> {
  const params = { path: { factor_id: id } };
  return (await unwrap(api.POST("/api/users/self/second-factors/{factor_id}/confirm", { params, body })))
    .recovery_codes;
}

async function createCredential(options: PublicKeyCredentialCreationOptionsJSON): Promise<Record<string, unknown>> {
  try {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
    const credential = await navigator.credentials.create({ publicKey });
    if (credential instanceof PublicKeyCredential) return credential.toJSON() as unknown as Record<string, unknown>;
  } catch {
    // Browsers say too little about the reason to be useful: the user cancelled, or the key is registered already.
  }
  throw new Error(text.keyRefused);
}
