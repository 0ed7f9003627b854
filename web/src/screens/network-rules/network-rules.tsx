import { useSearch } from "@tanstack/react-router";
import { Chip } from "../../parts/chip";
import { MarkedText } from "../../parts/marked-text";
import { Covers, nameColumn, RuleList } from "../../parts/rule-list";
import type { Column } from "../../parts/table";
import { text } from "./messages";
import { type NetworkRule, networkRules } from "./network-rule-data";

const COLUMNS: Column<NetworkRule>[] = [
  nameColumn("/network-rules"),
  {
    title: text.list.networks,
    cell: ({ allowed_networks }) => (
      <span className="mono">
        <MarkedText text={allowed_networks.join(", ")} />
      </span>
    ),
  },
  {
    title: text.list.groups,
    cell: ({ groups }) => (groups.length > 0 ? <MarkedText text={groups.join(", ")} /> : text.list.everyone),
  },
  { title: text.list.covers, cell: (rule) => <Covers rule={rule} none={text.list.gateway} /> },
  { title: text.list.state, cell: ({ enabled }) => !enabled && <Chip kind="off">{text.list.off}</Chip> },
];

/** All network rules, or those that cover the connection in the address. */
export function NetworkRulesScreen() {
  const { connection } = useSearch({ from: "/shell/network-rules" });
  return (
    <RuleList
      path="/network-rules"
      resource={networkRules}
      columns={COLUMNS}
      command="postern admin network-rules create contractors --group contractors --network 10.8.0.0/16"
      connection={connection}
      text={text.list}
    />
  );
}
