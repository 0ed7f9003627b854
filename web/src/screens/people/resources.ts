// What the screens of people, groups, keys and machine identities read and change.

import { api, unwrap, unwrapVersioned } from "../../api/client";
import { ApiError } from "../../api/errors";
import { resource } from "../../api/resource";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];

export type Person = Schemas["UserAnswer"];
export type Group = Schemas["GroupAnswer"];
export type ServiceAccount = Schemas["ServiceAccountAnswer"];
export type ApiKey = Schemas["ApiKeyAnswer"];
export type Machine = Schemas["MachineAnswer"] & { new_credentials?: IssuedCredential[] };
export type IssuedCredential = Schemas["IssuedCredentialAnswer"];
export type Authority = Schemas["SshAuthorityAnswer"];

export type PersonDraft = Schemas["UserChange"];
export type ServiceAccountDraft = Schemas["ServiceAccountRequest"];
export type ApiKeyDraft = Schemas["ApiKeyRequest"];
export type MachineDraft = Schemas["MachineChangeRequest"];

export const people = resource<Person, PersonDraft>("/api/users");
export const groups = resource<Group, Schemas["GroupRequest"]>("/api/users/groups");
export const serviceAccounts = resource<ServiceAccount, ServiceAccountDraft>("/api/serviceaccounts");
export const apiKeys = resource<ApiKey, ApiKeyDraft>("/api/api-keys");
export const machines = resource<Machine, MachineDraft>("/api/machineidentities");
export const authorities = resource<Authority, Schemas["SshAuthorityRequest"]>("/api/sshauthorities");

/** Return what names a resource in an address: its name, or its identifier if a path cannot have the name. */
export function addressOf({ id, name }: { id: string; name: string }): string {
  return /[/\\]|^\.{1,2}$/.test(name) ? id : name;
}

const TRIES = 3;

/** Change the groups of a user, on top of what others change at the same moment. */
export async function changeGroups(email: string, change: (groups: string[]) => string[]): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const path = { nameOrID: email };
    const { item, version } = await unwrapVersioned(api.GET("/api/users/{nameOrID}", { params: { path } }));
    const body = { groups: change(item.groups) };
    try {
      const params = { path, header: { "If-Match": version } };
      await unwrap(api.PATCH("/api/users/{nameOrID}", { params, body }));
      return;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 412 || attempt === TRIES) throw error;
    }
  }
}
