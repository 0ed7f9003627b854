import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { usePages } from "../../api/pages";
import { addressOf } from "../../api/resource";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Search } from "../../parts/search";
import type { Column } from "../../parts/table";
import { type Rule, rules } from "./data";
import { text } from "./messages";
import { RunbooksPage } from "./runbooks-page";

/** Which groups can run which runbooks, and on which connections. */
export function RulesScreen() {
  const { search = "" } = useSearch({ from: "/shell/runbooks/rules" });
  const navigate = useNavigate({ from: "/runbooks/rules" });
  const { is_admin } = useUser();
  const pages = usePages([rules.path, "list", search], (place) => rules.list(place, search ? { search } : {}));
  const find = (value: string) => void navigate({ search: value ? { search: value } : {}, replace: true });
  const hasRules = pages.rows.length > 0;
  return (
    <RunbooksPage path="/runbooks/rules" title={text.rules.title} aside={is_admin && <NewButton />}>
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
  {
    title: common.name,
    cell: (rule) => (
      <Link to="/runbooks/rules/$name" params={{ name: addressOf(rule) }}>
        <MarkedText text={rule.name} />
      </Link>
    ),
  },
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

function NewButton() {
  return (
    <LinkButton kind="primary" to="/runbooks/rules/new">
      {text.rules.create}
    </LinkButton>
  );
}

function Nothing() {
  const { is_admin } = useUser();
  return (
    <div className="stack">
      <p>{text.rules.none}</p>
      {is_admin && (
        <>
          <div>
            <NewButton />
          </div>
          <Copy label={common.commandLine} text={text.rules.command} />
        </>
      )}
    </div>
  );
}
