import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Page } from "../../parts/page";
import { Views } from "../../parts/views";
import { text } from "./messages";

const VIEWS = [
  ["/retention", text.views.retention],
  ["/retention/holds", text.views.holds],
  ["/retention/purges", text.views.purges],
] as const;

/** What the views of retention have in common. */
export function RetentionPage({
  path,
  aside,
  children,
}: {
  path: (typeof VIEWS)[number][0];
  aside?: ReactNode;
  children: ReactNode;
}) {
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
