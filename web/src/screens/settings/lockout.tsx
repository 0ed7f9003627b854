import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { type Column, Table } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";

type Admin = components["schemas"]["UserAnswer"];

const COLUMNS: Column<Admin>[] = [
  { title: text.login.email, cell: ({ email }) => <MarkedText text={email} /> },
  { title: text.login.status, cell: ({ status }) => text.login.statuses[status] },
  {
    title: text.login.lastLogin,
    cell: ({ last_login_at }) => (last_login_at ? <Time at={last_login_at} /> : text.login.never),
  },
];

interface Props {
  /** Why the gateway refused: who could still get in. */
  message: string;
  adminGroup: string;
  onAnyway: () => Promise<unknown>;
}

/** A change after which no administrator is known to get in: why, who is concerned, and the way back. */
export function Lockout({ message, adminGroup, onAnyway }: Props) {
  const admins = useQuery({
    queryKey: ["administrators", adminGroup],
    queryFn: () => unwrap(api.GET("/api/users", { params: { query: { group: adminGroup, limit: 100 } } })),
  });
  const rows = admins.data?.data ?? [];
  return (
    <Notice kind="refused">
      <h2>{text.login.lockoutTitle}</h2>
      <p>{message}</p>
      {admins.error && <Failure error={admins.error} />}
      <h3>{text.login.lockoutAdmins}</h3>
      {admins.data && rows.length === 0 && <p>{text.login.lockoutNone}</p>}
      {rows.length > 0 && (
        <Table label={text.login.lockoutAdmins} columns={COLUMNS} rows={rows} keyOf={({ id }) => id} />
      )}
      <p>{text.login.lockoutRescue}</p>
      <Copy label={text.login.lockoutRescue} text={text.login.rescue} />
      <Confirm label={text.login.anyway} title={text.login.anywayTitle} action={onAnyway}>
        {text.login.anywayText}
      </Confirm>
    </Notice>
  );
}
