import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useUser } from "../../api/account";
import { Page } from "../../parts/page";
import { Views } from "../../parts/views";
import { text } from "./messages";

const FOR_ALL = [
  ["/runbooks", text.views.runbooks],
  ["/runbooks/schedules", text.views.schedules],
] as const;
const FOR_READERS = [
  ["/runbooks/repositories", text.views.repositories],
  ["/runbooks/rules", text.views.rules],
] as const;

interface Props {
  path: (typeof FOR_ALL)[number][0] | (typeof FOR_READERS)[number][0];
  title: string;
  aside?: ReactNode;
  children: ReactNode;
}

/** One of the lists about runbooks, with links to the others that the user can read. */
export function RunbooksPage({ path, title, aside, children }: Props) {
  const { role } = useUser();
  const views = role === "standard" ? FOR_ALL : [...FOR_ALL, ...FOR_READERS];
  return (
    <Page title={title} aside={aside}>
      <Views label={text.title}>
        {views.map(([to, title]) => (
          <Link
            key={to}
            to={to}
            activeOptions={{ exact: true, includeSearch: false }}
            aria-current={to === path ? "page" : undefined}
          >
            {title}
          </Link>
        ))}
      </Views>
      {children}
    </Page>
  );
}
