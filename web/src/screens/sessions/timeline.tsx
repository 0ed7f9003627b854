import { useInfiniteQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { Mask } from "../../engines/masks";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { text } from "./messages";
import styles from "./session.module.css";

/** One entry of the timeline: a statement with what came of it, or a note of the gateway. Times in milliseconds. */
interface Exchange {
  at: number;
  statement: string | null;
  values: (string | null)[];
  truncated: boolean;
  duration: number | null;
  rows: number | null;
  tag: string | null;
  error: string | null;
  refusal: { rule: string | null; message: string } | null;
  note: string | null;
  /** Values of the answer that were masked, by what masked them. */
  masked?: (Mask & { values: number })[];
  output?: string;
  errors?: string;
}

const OFTEN = 3_000; // milliseconds between two requests at a session that is open
const PAGE = 200;

/** The statements of a session, each with what came of it, and notes of the gateway. */
export function Timeline({ id, isOpen }: { id: string; isOpen: boolean }) {
  const list = useInfiniteQuery({
    queryKey: ["timeline", id],
    initialPageParam: "",
    refetchInterval: isOpen ? OFTEN : false,
    queryFn: ({ pageParam: cursor }) => {
      const query = { limit: PAGE, ...(cursor && { cursor }) };
      return unwrap(api.GET("/api/sessions/{session_id}/timeline", { params: { path: { session_id: id }, query } }));
    },
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  });
  const exchanges = (list.data?.pages.flatMap((page) => page.data) ?? []) as unknown as Exchange[];
  return (
    <section aria-label={text.session.timeline} className={styles.timeline}>
      <h2>{text.session.timeline}</h2>
      {list.error && <Failure error={list.error} onRetry={() => void list.refetch()} />}
      {list.data && exchanges.length === 0 && <p>{text.session.nothing}</p>}
      <ol>
        {exchanges.map((exchange, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: entries are only ever added at the end
          <li key={index} className={exchange.refusal || exchange.error ? styles.failed : undefined}>
            <Entry exchange={exchange} />
          </li>
        ))}
      </ol>
      {list.hasNextPage && (
        <Button onPress={() => void list.fetchNextPage()} isDisabled={list.isFetchingNextPage}>
          {common.loadMore}
        </Button>
      )}
    </section>
  );
}

function Entry({ exchange }: { exchange: Exchange }) {
  return (
    <>
      <span className={styles.at}>{text.session.at(exchange.at / 1_000)}</span>
      <div>
        {exchange.statement !== null && (
          <pre>
            <MarkedText text={exchange.statement} />
            {exchange.truncated && ` ${text.session.truncated}`}
          </pre>
        )}
        {exchange.values.length > 0 && (
          <p className="mono">
            <MarkedText text={exchange.values.map((value) => value ?? common.noValue).join(", ")} />
          </p>
        )}
        {exchange.note && <Said words={exchange.note} />}
        {exchange.output && (
          <pre>
            <MarkedText text={exchange.output} />
          </pre>
        )}
        {exchange.refusal && <Said words={exchange.refusal.message} />}
        {exchange.error && exchange.error !== exchange.refusal?.message && <Said words={exchange.error} />}
        {exchange.errors && (
          <pre>
            <MarkedText text={exchange.errors} />
          </pre>
        )}
        {exchange.statement !== null && <p className={styles.result}>{resultOf(exchange)}</p>}
        {exchange.masked?.map(({ rule, strategy, info_types, values }) => (
          <p key={`${rule} ${strategy} ${info_types}`} className={styles.masked}>
            {counted(text.session.masked, values)}: <MarkedText text={common.maskedBy(rule, strategy, info_types)} />
          </p>
        ))}
      </div>
    </>
  );
}

function Said({ words }: { words: string }) {
  return (
    <p>
      <MarkedText text={words} />
    </p>
  );
}

function resultOf({ rows, tag, duration }: Exchange): string {
  const parts = [];
  if (rows !== null) parts.push(counted(common.rows, rows));
  else if (tag) parts.push(tag);
  if (duration !== null) parts.push(text.session.took(duration));
  return parts.join(" · ");
}
