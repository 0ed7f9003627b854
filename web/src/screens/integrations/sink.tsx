import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Facts } from "../../parts/facts";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor } from "../../parts/resource-editor";
import { Section } from "../../parts/section";
import { Time } from "../../parts/time";
import { Deliveries } from "./deliveries";
import { text } from "./messages";
import { SigningSecret } from "./signing-secret";
import { blankSink, draftOfSink, type Sink, sinks } from "./sink-draft";
import { SinkFields } from "./sink-fields";
import { SinkStatus } from "./sink-status";

const OFTEN = 5_000; // milliseconds between two requests: deliveries fail and recover at any time

/** One sink: whether events arrive, its deliveries, and its settings. */
export function SinkScreen() {
  const { name } = useParams({ from: "/shell/integrations/sinks/$name" });
  const isAdmin = useUser()?.role === "admin";
  const query = useQuery({
    queryKey: ["/api/sinks", "status", name],
    refetchInterval: OFTEN,
    queryFn: () => unwrap(api.GET("/api/sinks/{nameOrID}", { params: { path: { nameOrID: name } } })),
  });
  const sink = query.data;
  return (
    <Page title={name} aside={<Link to="/integrations">{text.sink.back}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {sink && (
        <>
          <Facts facts={factsOf(sink)} />
          {sink.kind === "slack" && <SlackUrl id={sink.id} />}
          {isAdmin && <Actions sink={sink} />}
          <Deliveries sink={name} isAdmin={isAdmin} />
          <Section title={text.sink.settings}>
            <Settings name={name} isAdmin={isAdmin} />
          </Section>
        </>
      )}
    </Page>
  );
}

function factsOf(sink: Sink): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    [text.sinks.status, <SinkStatus key="status" sink={sink} />],
    [text.sinks.kind, text.kinds[sink.kind]],
    [text.sinks.delivered, sink.delivered_at ? <Time key="delivered" at={sink.delivered_at} /> : text.sinks.never],
  ];
  if (sink.failing_since) facts.push([text.sink.failingSince, <Time key="since" at={sink.failing_since} />]);
  if (sink.failures > 0) facts.push([text.sink.failures, sink.failures]);
  if (sink.last_error) facts.push([text.sink.lastError, <MarkedText key="error" text={sink.last_error} />]);
  if (sink.next_attempt_at) facts.push([text.sink.nextAttempt, <Time key="next" at={sink.next_attempt_at} />]);
  return facts;
}

function SlackUrl({ id }: { id: string }) {
  return (
    <div className="stack">
      <p>{text.sink.slackUrl}</p>
      <Copy label={text.sink.slackUrl} text={`${window.location.origin}/api/chat/slack/${id}`} />
    </div>
  );
}

function Actions({ sink }: { sink: Sink }) {
  const queries = useQueryClient();
  const [secret, setSecret] = useState<string | null>(null);
  const params = { path: { nameOrID: sink.name } };
  const test = useMutation({
    mutationFn: () => unwrap(api.POST("/api/sinks/{nameOrID}/test", { params })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["deliveries", sink.name] }),
  });
  const rotate = async () => setSecret((await unwrap(api.POST("/api/sinks/{nameOrID}/secret", { params }))).secret);
  return (
    <>
      <div className="row">
        <Button onPress={() => test.mutate()} isDisabled={test.isPending}>
          {text.sink.test}
        </Button>
        {sink.kind === "webhook" && (
          <Confirm label={text.sink.rotate} title={text.sink.rotateTitle} action={rotate}>
            {text.sink.rotateText}
          </Confirm>
        )}
      </div>
      {test.error && <Failure error={test.error} />}
      {test.data && (
        <Notice kind="info">
          <p>{text.sink.tested(test.data.number)}</p>
        </Notice>
      )}
      <SigningSecret secret={secret} onClose={() => setSecret(null)} />
    </>
  );
}

function Settings({ name, isAdmin }: { name: string; isAdmin: boolean }) {
  const navigate = useNavigate();
  const [secret, setSecret] = useState<string | null>(null);
  const moved = (name: string | null) =>
    void navigate(name === null ? { to: "/integrations" } : { to: "/integrations/sinks/$name", params: { name } });
  return (
    <>
      <ResourceEditor
        resource={sinks}
        verbs={text.sink.submit}
        name={name}
        blank={blankSink("webhook")}
        draftOf={draftOfSink}
        nameOf={(sink) => sink.name}
        onMoved={moved}
        onSaved={(sink) => setSecret(sink.secret ?? null)}
        isReadOnly={!isAdmin}
        deletion={{ label: text.sink.delete, title: text.sink.deleteTitle(name), text: text.sink.deleteText }}
      >
        {(draft, set, saved) => <SinkFields draft={draft} set={set} saved={saved} />}
      </ResourceEditor>
      <SigningSecret secret={secret} onClose={() => setSecret(null)} />
    </>
  );
}
