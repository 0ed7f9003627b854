import { useSearch } from "@tanstack/react-router";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { MarkedText } from "../../parts/marked-text";
import { AppliesTo, nameColumn, RuleList } from "../../parts/rule-list";
import type { Column } from "../../parts/table";
import { type MaskingRule, maskingRules } from "./masking-data";
import { text } from "./messages";

const COLUMNS: Column<MaskingRule>[] = [
  nameColumn("/masking"),
  { title: common.description, cell: ({ description }) => <MarkedText text={description} /> },
  { title: text.list.masks, cell: whatItMasks },
  { title: text.list.strategy, cell: ({ strategy }) => text.strategies[strategy] },
  { title: text.list.strictness, cell: ({ strictness }) => text.list.strict[strictness] },
  { title: text.list.appliesTo, cell: ({ connection_ids }) => <AppliesTo ids={connection_ids} /> },
];

/** All masking rules, or those that apply to the connection in the address. */
export function MaskingRulesScreen() {
  const { connection } = useSearch({ from: "/shell/masking" });
  return (
    <RuleList
      path="/masking"
      resource={maskingRules}
      columns={COLUMNS}
      command={'postern masking create "customer data" --preset recommended --connection NAME'}
      connection={connection}
      text={text.list}
    />
  );
}

function whatItMasks({ columns, supported_entity_types, custom_entity_types }: MaskingRule): string {
  const types =
    supported_entity_types.reduce((sum, { entity_types }) => sum + entity_types.length, 0) + custom_entity_types.length;
  const parts = [
    columns.length > 0 && counted(text.list.columns, columns.length),
    types > 0 && counted(text.list.types, types),
  ];
  return parts.filter(Boolean).join(", ") || common.none;
}
