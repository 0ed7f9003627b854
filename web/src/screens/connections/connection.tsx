import { useMutation, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { userQuery } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { Button } from "../../parts/button";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Pin } from "../../parts/pin";
import { Skeleton } from "../../parts/table";
import { Views } from "../../parts/views";
import { AccessTab } from "./access-tab";
import { ActivityTab } from "./activity-tab";
import { type Connection, ConnectionForm } from "./connection-form";
import { text } from "./messages";
import { OpenTab } from "./open-tab";
import { RulesTab } from "./rules-tab";
import { TABS, type Tab } from "./tabs";

/** A connection: how to open it, who may, what was done with it, which rules cover it, and its settings. */
export function ConnectionScreen() {
  const { name } = useParams({ from: "/shell/connections/$name" });
  const { tab = "open" } = useSearch({ from: "/shell/connections/$name" });
  const { data: user } = useSuspenseQuery(userQuery);
  const readsAll = user?.role === "admin" || user?.role === "auditor";
  const tabs = TABS.filter((other) => (other === "settings" ? user?.is_admin : other !== "rules" || readsAll));
  const query = useQuery({
    queryKey: ["connection", name],
    queryFn: () => unwrap(api.GET("/api/connections/{nameOrID}", { params: { path: { nameOrID: name } } })),
  });
  return (
    <Page
      title={name}
      aside={
        <div className="row">
          {query.data && <Pin id={query.data.id} name={name} />}
          <Link to="/connections">{text.title}</Link>
        </div>
      }
    >
      {query.data?.description && (
        <p className="secondary">
          <MarkedText text={query.data.description} />
        </p>
      )}
      <Views label={text.tabs}>
        {tabs.map((other) => (
          <Link
            key={other}
            to="/connections/$name"
            params={{ name }}
            search={{ tab: other }}
            aria-current={other === tab ? "page" : undefined}
          >
            {text.tab[other]}
          </Link>
        ))}
      </Views>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {query.data && <TabOf tab={tab} connection={query.data} readsAll={readsAll} />}
    </Page>
  );
}

function TabOf({ tab, connection, readsAll }: { tab: Tab; connection: Connection; readsAll: boolean }) {
  switch (tab) {
    case "open":
      return <OpenTab connection={connection} />;
    case "access":
      return <AccessTab connection={connection} />;
    case "activity":
      return <ActivityTab name={connection.name} />;
    case "rules":
      return readsAll ? <RulesTab connection={connection} /> : null;
    case "settings":
      return <SettingsTab connection={connection} />;
  }
}

function SettingsTab({ connection }: { connection: Connection }) {
  const navigate = useNavigate();
  return (
    <>
      <TargetTest name={connection.name} />
      <ConnectionForm name={connection.name} onMoved={() => void navigate({ to: "/connections" })} />
    </>
  );
}

/** Log in at the target as a session would. */
function TargetTest({ name }: { name: string }) {
  const test = useMutation({
    mutationFn: () => unwrap(api.GET("/api/connections/{nameOrID}/test", { params: { path: { nameOrID: name } } })),
  });
  return (
    <div className="stack">
      <div className="row">
        <Button onPress={() => test.mutate()} isDisabled={test.isPending}>
          {test.isPending ? text.testing : text.test}
        </Button>
        <span className="secondary">{text.testHint}</span>
      </div>
      {test.error && <Failure error={test.error} />}
      {test.isSuccess && (
        <Notice kind="ok">
          <p>{text.tested}</p>
        </Notice>
      )}
    </div>
  );
}
