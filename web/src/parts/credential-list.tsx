import { useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, unwrap } from "../api/client";
import { type Page, type Place, usePages } from "../api/pages";
import type { components } from "../api/schema";
import { common } from "../messages/common";
import { Confirm } from "./confirm";
import { List } from "./list";
import { MarkedText } from "./marked-text";
import type { Column } from "./table";
import { Time } from "./time";

type Credential = components["schemas"]["CredentialAnswer"];

const ROOT = "credentials"; // all lists of credentials, so that issuing and revoking change each

interface Props {
  label: string;
  listKey: readonly unknown[];
  read: (place: Place) => Promise<Page<Credential>>;
  none: ReactNode;
  /** A column that names the connection, where they are of several. */
  connection?: (name: string) => ReactNode;
}

/** One's own credentials for native clients, each with a way to revoke it. */
export function CredentialList({ label, listKey, read, none, connection }: Props) {
  const queries = useQueryClient();
  const pages = usePages([ROOT, ...listKey], read);
  const revoke = async (credential_id: string) => {
    await unwrap(api.POST("/api/credentials/{credential_id}/revoke", { params: { path: { credential_id } } }));
    await queries.invalidateQueries({ queryKey: [ROOT] });
  };
  const columns: Column<Credential>[] = [
    ...(connection
      ? [{ title: common.connection, cell: ({ connection_name }: Credential) => connection(connection_name) }]
      : []),
    {
      title: common.username,
      cell: ({ username }) => (
        <code>
          <MarkedText text={username} />
        </code>
      ),
    },
    { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
    { title: common.expires, cell: ({ expires_at }) => expires_at && <Time at={expires_at} /> },
    {
      title: common.revoke,
      cell: ({ id }) => (
        <Confirm label={common.revoke} title={common.revokeCredential} action={() => revoke(id)}>
          {common.revokeCredentialText}
        </Confirm>
      ),
    },
  ];
  return <List label={label} pages={pages} columns={columns} keyOf={({ id }) => id} none={none} />;
}
