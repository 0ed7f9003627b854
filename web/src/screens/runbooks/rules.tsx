import { useNavigate, useSearch } from "@tanstack/react-router";
import { usePages } from "../../api/pages";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { NewRuleButton, NoRules, nameColumn } from "../../parts/rule-list";
import { Search } from "../../parts/search";
import type { Column } from "../../parts/table";
import { type Rule, rules } from "./data";
import { text } from "./messages";
import { RunbooksPage } from "./runbooks-page";

/** Which groups can run which runbooks, and on which connections. */
export function RulesScreen() {
  const { search = "" } = useSearch({ from: "/shell/runbooks/rules" });
  const navigate = useNavigate({ from: "/runbooks/rules" });
  const pages = usePages([rules.path, "list", search], (place) => rules.list(place, search ? { search } : {}));
  const find = (value: string) => void navigate({ search: value ? { search: value } : {}, replace: true });
  const newRule = <NewRuleButton path="/runbooks/rules">{text.rules.create}</NewRuleButton>;
  const hasRules = pages.rows.length > 0;
  return (
    <RunbooksPage path="/runbooks/rules" title={text.rules.title} aside={newRule}>
      {hasRules && <p className="secondary">{text.rules.about}</p>}
      {(hasRules || search) && <Search label={text.rules.search} value={search} onSearch={find} />}
      <List
        label={text.rules.title}
        pages={pages}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        count={(total) => counted(text.rules.count, total)}
        none={search ? <p>{common.noMatch(search)}</p> : <Nothing />}
      />
    </RunbooksPage>
  );
}

const COLUMNS: Column<Rule>[] = [
  nameColumn("/runbooks/rules"),
  { title: common.description, cell: ({ description }) => <MarkedText text={description} /> },
  {
    title: text.rules.runbooks,
    cell: ({ runbooks }) => (
      <span className="mono">
        <MarkedText
          text={runbooks.map(({ repository, name }) => (name ? `${repository}/${name}` : repository)).join(", ")}
        />
      </span>
    ),
  },
  { title: text.rules.connections, cell: (rule) => <Where rule={rule} /> },
  {
    title: text.rules.groups,
    cell: ({ user_groups }) => <MarkedText text={user_groups.join(", ") || text.rules.everybody} />,
  },
];

function Where({ rule: { connections, nowhere } }: { rule: Rule }) {
  if (nowhere) return <Chip kind="held">{text.rules.nowhere}</Chip>;
  return connections.length > 0 ? <MarkedText text={connections.join(", ")} /> : text.rules.all;
}

function Nothing() {
  return (
    <NoRules path="/runbooks/rules" create={text.rules.create} command={text.rules.command}>
      {text.rules.none}
    </NoRules>
  );
}
