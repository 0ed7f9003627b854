import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type User, useUser } from "../../api/account";
import { Page } from "../../parts/page";
import { Views } from "../../parts/views";
import { text } from "./messages";

const DEFAULT = "default"; // the organisation whose administrators also run the server

/** Operators run the server, for all organisations. */
export function isOperator(user: User | null): boolean {
  return user?.role === "admin" && user.org_name === DEFAULT;
}

const everybody = () => true;
const VIEWS = [
  { to: "/settings", title: text.views.organisation, isFor: everybody },
  { to: "/settings/login", title: text.views.login, isFor: everybody },
  { to: "/settings/features", title: text.views.features, isFor: everybody },
  { to: "/settings/server", title: text.views.server, isFor: isOperator },
  { to: "/settings/log", title: text.views.log, isFor: isOperator },
  { to: "/settings/organisations", title: text.views.organisations, isFor: isOperator },
  { to: "/settings/about", title: text.views.about, isFor: everybody },
] as const;

interface Props {
  path: (typeof VIEWS)[number]["to"];
  aside?: ReactNode;
  children: ReactNode;
}

/** What all settings have in common. */
export function SettingsPage({ path, aside, children }: Props) {
  const user = useUser();
  return (
    <Page title={text.title} aside={aside}>
      <Views label={text.title}>
        {VIEWS.filter(({ isFor }) => isFor(user)).map(({ to, title }) => (
          <Link key={to} to={to} activeOptions={{ exact: true }} aria-current={to === path ? "page" : undefined}>
            {title}
          </Link>
        ))}
      </Views>
      {children}
    </Page>
  );
}
