import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useConnections } from "../../api/lists";
import { useNames } from "../../api/names";
import { Chip } from "../../parts/chip";
import { Facts } from "../../parts/facts";
import { MarkedText } from "../../parts/marked-text";
import { NameChoice } from "../../parts/name-choice";
import { Failure, Notice } from "../../parts/notice";
import { Skeleton } from "../../parts/table";
import { type Explanation, explanationQuery } from "./access-rule-data";
import styles from "./access-rules.module.css";
import { text } from "./messages";

/** Whether one user can use one connection, and why: by which rule, and with whose approval. */
export function Why() {
  const { user = "", connection = "" } = useSearch({ from: "/shell/access-rules" });
  const navigate = useNavigate({ from: "/access-rules" });
  const users = useNames("/api/users");
  const names = useConnections().map(({ name }) => name);
  const query = useQuery(explanationQuery(connection, user));
  const choose = (part: { user?: string; connection?: string }) =>
    void navigate({ search: (before) => ({ ...before, ...part }), replace: true });
  return (
    <>
      <p className="secondary">{text.why.about}</p>
      <div className={styles.choices}>
        <NameChoice label={text.why.user} value={user} options={users} onChange={(email) => choose({ user: email })} />
        <NameChoice
          label={text.why.connection}
          value={connection}
          options={names}
          onChange={(name) => choose({ connection: name })}
        />
      </div>
      {query.error && <Failure error={query.error} />}
      {query.isLoading && <Skeleton rows={3} />}
      {query.data && <Answer explanation={query.data} />}
    </>
  );
}

function Answer({ explanation }: { explanation: Explanation }) {
  const { user, connection, allowed, visible, once_enforced: preview, would_allow } = explanation;
  return (
    <section aria-label={text.list.view.why} className={styles.answer}>
      <Notice kind={allowed ? "ok" : "refused"}>
        <p>
          <MarkedText text={allowed ? text.why.can(user, connection) : text.why.cannot(user, connection)} />
        </p>
        {visible && !allowed && <p>{text.why.seesOnly}</p>}
      </Notice>
      <Facts facts={factsOf(explanation)} />
      <OtherRules rules={would_allow} />
      {preview && (
        <section aria-label={text.why.onceOn} className="stack">
          <h2>{text.why.onceOn}</h2>
          <p>
            <Chip kind={preview.allowed ? "ok" : "refused"}>
              {preview.allowed ? text.why.wouldCan : text.why.wouldNot}
            </Chip>
          </p>
          <Facts facts={reasonsOf(preview)} />
          <OtherRules rules={preview.would_allow} />
        </section>
      )}
    </section>
  );
}

type Reasons = Pick<Explanation, "reason" | "rule" | "group">;

function reasonsOf({ reason, rule, group }: Reasons): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [[text.why.reason, <MarkedText key="reason" text={reason} />]];
  if (rule) facts.push([text.why.rule, <RuleLink key="rule" name={rule} />]);
  if (group) facts.push([text.why.group, <MarkedText key="group" text={group} />]);
  return facts;
}

function factsOf(explanation: Explanation): [string, ReactNode][] {
  const reviews = explanation.reviews.map(({ verb, reason }): [string, ReactNode] => [
    text.why[verb],
    <MarkedText key={verb} text={reason} />,
  ]);
  const networks = explanation.network_rules.map(({ rule, allowed_networks }) =>
    text.why.byNetworkRule(allowed_networks.join(", "), rule),
  );
  const limits: [string, ReactNode][] = [[text.why.onlyFrom, <MarkedText key="networks" text={networks.join("; ")} />]];
  return [...reasonsOf(explanation), ...reviews, ...(networks.length > 0 ? limits : [])];
}

function OtherRules({ rules }: { rules: Explanation["would_allow"] }) {
  if (rules.length === 0) return null;
  return (
    <div className="stack">
      <p className="secondary">{text.why.wouldAllow}</p>
      <ul>
        {rules.map(({ rule, groups }) => (
          <li key={rule}>
            <RuleLink name={rule} /> <MarkedText text={text.why.forGroups(groups.join(", "))} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function RuleLink({ name }: { name: string }) {
  return (
    <Link to="/access-rules/$name" params={{ name }}>
      <MarkedText text={name} />
    </Link>
  );
}
