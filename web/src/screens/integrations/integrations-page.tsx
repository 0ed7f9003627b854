import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Page } from "../../parts/page";
import { Views } from "../../parts/views";
import { text } from "./messages";

const VIEWS = [
  ["/integrations", text.views.sinks],
  ["/integrations/events", text.views.events],
  ["/integrations/tracker", text.views.tracker],
  ["/integrations/templates", text.views.templates],
  ["/integrations/chat", text.views.chat],
] as const;

interface Props {
  path: (typeof VIEWS)[number][0];
  aside?: ReactNode;
  children: ReactNode;
}

/** What the lists of integrations have in common. */
export function IntegrationsPage({ path, aside, children }: Props) {
  return (
    <Page title={text.title} aside={aside}>
      <Views label={text.title}>
        {VIEWS.map(([to, title]) => (
          <Link key={to} to={to} activeOptions={{ exact: true }} aria-current={to === path ? "page" : undefined}>
            {title}
          </Link>
        ))}
      </Views>
      {children}
    </Page>
  );
}
