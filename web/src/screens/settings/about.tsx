import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { LISTENERS } from "../../engines/listeners";
import { Chip } from "../../parts/chip";
import { Facts } from "../../parts/facts";
import { Failure } from "../../parts/notice";
import { Section } from "../../parts/section";
import { Skeleton } from "../../parts/table";
import { text } from "./messages";
import { isOperator, SettingsPage } from "./settings-page";

type Info = components["schemas"]["ServerInfoAnswer"];

const OFTEN = 10_000; // milliseconds between two requests at the gateway's state

/** The gateway: its version, state and addresses, and what else there is to read. */
export function AboutScreen() {
  const user = useUser();
  const info = useQuery({ queryKey: ["serverinfo"], queryFn: () => unwrap(api.GET("/api/serverinfo")) });
  return (
    <SettingsPage path="/settings/about">
      {info.error && <Failure error={info.error} onRetry={() => void info.refetch()} />}
      {info.isPending && <Skeleton />}
      {info.data && <Facts facts={[[text.about.state, <Readiness key="state" />], ...factsOf(info.data)]} />}
      <Section title={text.about.links}>
        <ul className="stack">
          <li>
            <a href="/licences.txt">{text.about.licences}</a>
          </li>
          <li>
            <a href="/api/openapi.json">{text.about.openapi}</a>
          </li>
          {isOperator(user) && (
            <li>
              <a href="/api/metrics">{text.about.metrics}</a>{" "}
              <span className="secondary">{text.about.metricsHint}</span>
            </li>
          )}
        </ul>
      </Section>
    </SettingsPage>
  );
}

function Readiness() {
  const ready = useQuery({
    queryKey: ["readiness"],
    refetchInterval: OFTEN,
    retry: false,
    queryFn: () => unwrap(api.GET("/api/readyz")),
  });
  if (ready.error)
    return (
      <>
        <Chip kind="refused">{text.about.notReady}</Chip> {ready.error.message}
      </>
    );
  return ready.data ? <Chip kind="ok">{text.about.ready}</Chip> : null;
}

function factsOf(info: Info): [string, ReactNode][] {
  const listener = (isOn: boolean, host: string, port: number) =>
    isOn ? <code>{`${host}:${port}`}</code> : text.about.off;
  return [
    [text.about.version, <code key="version">{info.version}</code>],
    [text.about.tenancy, text.about.tenancies[info.tenancy_type] ?? info.tenancy_type],
    [text.about.api, <code key="api">{info.api_url}</code>],
    [text.about.agents, <code key="agents">{info.grpc_url}</code>],
    [text.about.tunnel, <code key="tunnel">{info.tunnel_url}</code>],
    ...LISTENERS.map((name): [string, ReactNode] => [
      text.listeners[name],
      listener(info[`${name}_proxy_enabled`], info[`${name}_host`], info[`${name}_port`]),
    ]),
  ];
}
