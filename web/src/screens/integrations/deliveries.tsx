import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Chip } from "../../parts/chip";
import { Confirm } from "../../parts/confirm";
import { Json } from "../../parts/json";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Section } from "../../parts/section";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { Views } from "../../parts/views";
import styles from "./integrations.module.css";
import { DELIVERY_STATES } from "./kinds";
import { text } from "./messages";

type Delivery = components["schemas"]["DeliveryAnswer"];

const OFTEN = 3_000; // milliseconds between two requests: one looks here while deliveries happen
const STATES = { waiting: "held", delivered: "ok", given_up: "refused" } as const;

const COLUMNS: Column<Delivery>[] = [
  { title: text.deliveries.number, cell: ({ number }) => number },
  { title: text.deliveries.event, cell: ({ event }) => <code className={styles.nowrap}>{event}</code> },
  {
    title: text.deliveries.state,
    cell: ({ state }) => <Chip kind={STATES[state]}>{text.deliveries.states[state]}</Chip>,
  },
  { title: text.deliveries.attempts, cell: ({ attempts }) => attempts },
  { title: text.deliveries.error, cell: ({ last_error }) => <MarkedText text={last_error} /> },
  { title: text.deliveries.created, cell: ({ created_at }) => <Time at={created_at} isExact /> },
  {
    title: text.deliveries.body,
    cell: ({ body }) => (
      <details>
        <summary>{text.deliveries.show}</summary>
        <Json value={body} />
      </details>
    ),
  },
];

/** The newest deliveries of a sink, with what became of each. */
export function Deliveries({ sink, isAdmin }: { sink: string; isAdmin: boolean }) {
  const { state } = useSearch({ from: "/shell/integrations/sinks/$name" });
  const path = { nameOrID: sink };
  const pages = usePages(
    ["deliveries", sink, state],
    (place) => {
      const query = { ...place, ...(state && { state }) };
      return unwrap(api.GET("/api/sinks/{nameOrID}/deliveries", { params: { path, query } }));
    },
    { limit: 20, every: OFTEN },
  );
  const actions = { title: text.deliveries.actions, cell: (row: Delivery) => <Redeliver sink={sink} delivery={row} /> };
  return (
    <Section title={text.deliveries.title} actions={isAdmin && <RedeliverAll sink={sink} />}>
      <Views label={text.deliveries.filters}>
        {([undefined, ...DELIVERY_STATES] as const).map((name) => (
          <Link
            key={name ?? "all"}
            to="/integrations/sinks/$name"
            params={{ name: sink }}
            search={name ? { state: name } : {}}
            activeOptions={{ exact: true }}
            aria-current={state === name ? "page" : undefined}
          >
            {name ? text.deliveries.states[name] : text.deliveries.all}
          </Link>
        ))}
      </Views>
      <List
        label={text.deliveries.title}
        pages={pages}
        columns={isAdmin ? [...COLUMNS, actions] : COLUMNS}
        keyOf={({ number }) => String(number)}
        none={<p>{state ? common.nothingFits : text.deliveries.none}</p>}
      />
    </Section>
  );
}

function Redeliver({ sink, delivery: { number, state } }: { sink: string; delivery: Delivery }) {
  const queries = useQueryClient();
  const send = useMutation({
    mutationFn: () => redeliver(sink, number),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["deliveries", sink] }),
  });
  return (
    <>
      <Button
        onPress={() => send.mutate()}
        isDisabled={send.isPending || state === "waiting"}
        aria-label={text.deliveries.redeliverOf(number)}
      >
        {text.deliveries.redeliver}
      </Button>
      {send.error && <Failure error={send.error} />}
    </>
  );
}

function RedeliverAll({ sink }: { sink: string }) {
  const queries = useQueryClient();
  const [queued, setQueued] = useState<number | null>(null);
  return (
    <div className="row">
      {queued !== null && (
        <Notice kind="ok">
          <p>{counted(text.deliveries.queued, queued)}</p>
        </Notice>
      )}
      <Confirm
        label={text.deliveries.redeliverAll}
        title={text.deliveries.redeliverTitle}
        action={async () => setQueued((await redeliver(sink)).waiting)}
        onDone={() => void queries.invalidateQueries({ queryKey: ["deliveries", sink] })}
      >
        {text.deliveries.redeliverText}
      </Confirm>
    </div>
  );
}

function redeliver(sink: string, number?: number) {
  const params = { path: { nameOrID: sink } };
  const body = { ...(number !== undefined && { number }) };
  return unwrap(api.POST("/api/sinks/{nameOrID}/redeliver", { params, body }));
}
