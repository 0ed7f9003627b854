import { Link, useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { usePages } from "../../api/pages";
import { addressOf } from "../../api/resource";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import type { Column } from "../../parts/table";
import { text } from "./messages";
import { type ReviewRule, reviewRules } from "./review-rule-data";

const COLUMNS: Column<ReviewRule>[] = [
  {
    title: common.name,
    cell: (rule) => (
      <Link to="/review-rules/$name" params={{ name: addressOf(rule) }}>
        <MarkedText text={rule.name} />
      </Link>
    ),
  },
  { title: text.list.covers, cell: (rule) => <MarkedText text={coverageOf(rule)} /> },
  { title: text.list.needs, cell: ({ access_type }) => text.kinds[access_type] },
  { title: text.list.approvers, cell: (rule) => <MarkedText text={approversOf(rule)} /> },
];

/** All review rules, or those that cover the connection in the address. */
export function ReviewRulesScreen() {
  const { connection } = useSearch({ from: "/shell/review-rules" });
  const { is_admin } = useUser();
  const pages = usePages([reviewRules.path, "list", connection], (place) =>
    reviewRules.list(place, connection ? { connection } : {}),
  );
  return (
    <Page title={text.list.title} aside={is_admin && <NewButton />}>
      {connection && (
        <p>
          {text.list.of(connection)} <Link to="/review-rules">{text.list.all}</Link>
        </p>
      )}
      <List
        label={text.list.title}
        pages={pages}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        count={(total) => counted(text.list.count, total)}
        none={<Nothing connection={connection} />}
      />
    </Page>
  );
}

function coverageOf({ connection_names, connection_tags }: ReviewRule): string {
  const tags = Object.entries(connection_tags).map(([key, value]) => `${key}=${value}`);
  return [...connection_names, ...(tags.length > 0 ? [text.list.allWith(tags.join(", "))] : [])].join(", ");
}

function approversOf({ reviewers_groups, all_groups_must_approve, min_approvals }: ReviewRule): string {
  const groups = reviewers_groups.join(", ");
  return all_groups_must_approve ? text.list.each(groups) : text.list.any(min_approvals, groups);
}

function NewButton() {
  return (
    <LinkButton kind="primary" to="/review-rules/new">
      {text.list.create}
    </LinkButton>
  );
}

function Nothing({ connection }: { connection: string | undefined }) {
  const { is_admin } = useUser();
  return (
    <div className="stack">
      <p>{connection ? text.list.noneOf(connection) : text.list.none}</p>
      {is_admin && (
        <>
          <div>
            <NewButton />
          </div>
          <Copy
            label={text.list.command}
            text="postern admin review-rules create prod-in-pairs --tag stage=prod --reviewers leads"
          />
        </>
      )}
    </div>
  );
}
