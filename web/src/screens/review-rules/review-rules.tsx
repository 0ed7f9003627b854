import { useSearch } from "@tanstack/react-router";
import { MarkedText } from "../../parts/marked-text";
import { Covers, nameColumn, RuleList } from "../../parts/rule-list";
import type { Column } from "../../parts/table";
import { text } from "./messages";
import { type ReviewRule, reviewRules } from "./review-rule-data";

const COLUMNS: Column<ReviewRule>[] = [
  nameColumn("/review-rules"),
  { title: text.list.covers, cell: (rule) => <Covers rule={rule} /> },
  { title: text.list.needs, cell: ({ access_type }) => text.kinds[access_type] },
  { title: text.list.approvers, cell: (rule) => <MarkedText text={approversOf(rule)} /> },
];

/** All review rules, or those that cover the connection in the address. */
export function ReviewRulesScreen() {
  const { connection } = useSearch({ from: "/shell/review-rules" });
  return (
    <RuleList
      path="/review-rules"
      resource={reviewRules}
      columns={COLUMNS}
      command="postern admin review-rules create prod-in-pairs --tag stage=prod --reviewers leads"
      connection={connection}
      text={text.list}
    />
  );
}

function approversOf({ reviewers_groups, all_groups_must_approve, min_approvals }: ReviewRule): string {
  const groups = reviewers_groups.join(", ");
  return all_groups_must_approve ? text.list.each(groups) : text.list.any(min_approvals, groups);
}
