import { api, unwrap } from "../../api/client";
import { readAll } from "../../api/pages";
import type { components } from "../../api/schema";
import type { IssuedCredential } from "./credential-lines";

export type Credential = components["schemas"]["CredentialAnswer"];

/** Issue a credential for the caller's own clients. The answer has its password, which is kept nowhere. */
export function issueCredential(nameOrID: string): Promise<IssuedCredential> {
  return unwrap(api.POST("/api/connections/{nameOrID}/credentials", { params: { path: { nameOrID } }, body: {} }));
}

/** The caller's own credentials for a connection that are valid now, newest first. */
export async function ownCredentials(connection: string): Promise<Credential[]> {
  const valid = await readAll((place) =>
    unwrap(api.GET("/api/credentials", { params: { query: { ...place, status: "active" } } })),
  );
  return valid.filter(({ connection_name }) => connection_name === connection);
}
