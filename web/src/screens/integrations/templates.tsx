import { Link } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { usePages } from "../../api/pages";
import { counted } from "../../messages";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { IntegrationsPage } from "./integrations-page";
import { text } from "./messages";
import { type Template, templates } from "./template-draft";

const COLUMNS: Column<Template>[] = [
  {
    title: text.templates.name,
    cell: ({ name }) => (
      <Link to="/integrations/templates/$name" params={{ name }} className="mono">
        <MarkedText text={name} />
      </Link>
    ),
  },
  { title: text.templates.project, cell: ({ project_key }) => <MarkedText text={project_key} /> },
  { title: text.templates.connections, cell: ({ connection_ids }) => connection_ids.length },
  { title: text.templates.changed, cell: ({ updated_at }) => updated_at && <Time at={updated_at} /> },
];

/** How sessions open issues, by name. */
export function TemplatesScreen() {
  const isAdmin = useUser()?.role === "admin";
  const pages = usePages([templates.path, "list"], (place) => templates.list(place));
  return (
    <IntegrationsPage
      path="/integrations/templates"
      aside={
        isAdmin && (
          <LinkButton kind="primary" to="/integrations/templates/new">
            {text.templates.new}
          </LinkButton>
        )
      }
    >
      <p className="secondary">{text.templates.about}</p>
      <List
        label={text.views.templates}
        pages={pages}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        count={(total) => counted(text.templates.count, total)}
        none={
          <>
            <p>{text.templates.none}</p>
            <Copy label={text.templates.none} text={text.templates.command} />
          </>
        }
      />
    </IntegrationsPage>
  );
}
