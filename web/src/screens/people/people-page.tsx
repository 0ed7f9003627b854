import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Chip } from "../../parts/chip";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import { Views } from "../../parts/views";
import { text } from "./messages";

const VIEWS = [
  ["/people", text.people],
  ["/people/groups", text.groups],
  ["/people/service-accounts", text.serviceAccounts],
  ["/people/api-keys", text.apiKeys],
  ["/people/machines", text.machines],
  ["/people/ssh-authorities", text.authorities],
  ["/people/federation-rules", text.federation],
] as const;

/** One of the lists of accounts, with links to the others. */
export function PeoplePage({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  return (
    <Page title={title} aside={aside}>
      <Views label={text.views}>
        {VIEWS.map(([to, title]) => (
          <Link key={to} to={to} activeOptions={{ exact: true, includeSearch: false }}>
            {title}
          </Link>
        ))}
      </Views>
      {children}
    </Page>
  );
}

const KINDS = { active: "ok", inactive: "off", invited: "info" } as const;

export function AccountStatus({ status }: { status: keyof typeof KINDS }) {
  return <Chip kind={KINDS[status]}>{text.statuses[status]}</Chip>;
}

export function Role({ role }: { role: string }) {
  return role === "standard" ? text.roles.standard : <Chip kind="info">{text.roles[role] ?? role}</Chip>;
}

export function NameList({ names, none = "" }: { names: string[]; none?: string }) {
  return names.length === 0 ? none : <MarkedText text={names.join(", ")} />;
}
