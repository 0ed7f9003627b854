import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useConnections } from "../../api/lists";
import { usePages } from "../../api/pages";
import { accessByGroup, type GroupAccess, uncovered } from "../../engines/coverage";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Covers, NewRuleButton, NoRules, nameColumn, RuleLink } from "../../parts/rule-list";
import { type Column, Skeleton, Table } from "../../parts/table";
import { Views } from "../../parts/views";
import { type AccessRule, accessRules, allRulesQuery } from "./access-rule-data";
import { FeatureSwitch } from "./feature-switch";
import { text } from "./messages";
import { VIEWS } from "./views";
import { Why } from "./why";

/** Who can use which connection: the rules, what they give to each group, and why one user can or cannot. */
export function AccessRulesScreen() {
  const search = useSearch({ from: "/shell/access-rules" });
  const { view = "rules" } = search;
  return (
    <Page title={text.list.title} aside={<NewRuleButton path="/access-rules">{text.list.create}</NewRuleButton>}>
      <FeatureSwitch />
      <Views label={text.list.views}>
        {VIEWS.map((name) => (
          <Link
            key={name}
            to="/access-rules"
            search={{ ...search, view: name }}
            aria-current={view === name ? "page" : undefined}
          >
            {text.list.view[name]}
          </Link>
        ))}
      </Views>
      {view === "rules" && <Rules />}
      {view === "groups" && <ByGroup />}
      {view === "why" && <Why />}
    </Page>
  );
}

const COLUMNS: Column<AccessRule>[] = [
  nameColumn("/access-rules"),
  { title: common.description, cell: ({ description }) => <MarkedText text={description} /> },
  { title: text.list.groups, cell: ({ groups }) => <MarkedText text={groups.join(", ")} /> },
  { title: text.list.covers, cell: (rule) => <Covers rule={rule} /> },
];

function Rules() {
  const pages = usePages([accessRules.path, "list"], (place) => accessRules.list(place));
  return (
    <List
      label={text.list.title}
      pages={pages}
      columns={COLUMNS}
      keyOf={({ id }) => id}
      count={(total) => counted(text.list.count, total)}
      none={
        <NoRules
          path="/access-rules"
          create={text.list.create}
          command="postern admin access-rules create staging --group developers --tag stage=staging"
        >
          {text.list.none}
        </NoRules>
      }
    />
  );
}

const GROUP_COLUMNS: Column<GroupAccess<AccessRule>>[] = [
  { title: text.byGroup.group, cell: ({ group }) => <MarkedText text={group} /> },
  {
    title: text.byGroup.connections,
    cell: ({ connections }) =>
      connections.length > 0 ? (
        <span className="mono">
          <MarkedText text={connections.join(", ")} />
        </span>
      ) : (
        <span className="secondary">{text.byGroup.nothing}</span>
      ),
  },
  {
    title: text.byGroup.rules,
    cell: ({ rules }) => (
      <span className="row">
        {rules.map((rule) => (
          <RuleLink key={rule.id} path="/access-rules" rule={rule} />
        ))}
      </span>
    ),
  },
];

function ByGroup() {
  const rules = useQuery(allRulesQuery);
  const connections = useConnections();
  if (rules.error) return <Failure error={rules.error} onRetry={() => void rules.refetch()} />;
  if (!rules.data) return <Skeleton />;
  const groups = accessByGroup(rules.data, connections);
  const rest = uncovered(rules.data, connections);
  return (
    <>
      {groups.length > 0 ? (
        <Table label={text.list.view.groups} columns={GROUP_COLUMNS} rows={groups} keyOf={({ group }) => group} />
      ) : (
        <p>{text.byGroup.none}</p>
      )}
      {rest.length > 0 && (
        <section aria-label={text.byGroup.uncovered} className="stack">
          <h2>{text.byGroup.uncovered}</h2>
          <p>{text.byGroup.uncoveredText}</p>
          <p className="mono words">
            <MarkedText text={rest.join(", ")} />
          </p>
        </section>
      )}
    </>
  );
}
