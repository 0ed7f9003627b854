import { useState } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { toCsv } from "../../engines/csv";
import { common } from "../../messages/common";
import { Download } from "../../parts/download";
import { type AuditSearch, auditQuery } from "./filters";
import { text } from "./messages";

type Entry = components["schemas"]["AuditEntryAnswer"];

const PAGE = 100; // the most of one answer
const MOST = 20_000; // entries of one file
const FIELDS = [
  ...(["created_at", "actor_email", "actor_subject", "action", "resource_type", "resource", "outcome"] as const),
  ...(["http_method", "http_path", "http_status", "client_ip", "request_id", "id"] as const),
] as const;

/** Buttons that store all entries of these filters as a file: CSV without, JSON with what was changed. */
export function AuditExport({ search }: { search: AuditSearch }) {
  const [count, setCount] = useState<number | null>(null);
  const [isCut, setCut] = useState(false);
  const readAll = async () => {
    setCut(false);
    try {
      const { entries, hasMore } = await readEntries(search, setCount);
      setCut(hasMore);
      return entries;
    } finally {
      setCount(null);
    }
  };
  const csv = async () =>
    toCsv(
      FIELDS,
      (await readAll()).map((entry) => FIELDS.map((field) => entry[field])),
    );
  const json = async () => JSON.stringify(await readAll(), null, 2);
  const isBusy = count !== null;
  return (
    <div className="row">
      <span role="status" className="secondary">
        {isBusy && text.export.busy(count)}
        {isCut && text.export.cut(MOST)}
      </span>
      <Download label={common.downloadCsv} name="audit-log.csv" content={csv} isDisabled={isBusy} />
      <Download label={common.downloadJson} name="audit-log.json" content={json} isDisabled={isBusy} />
    </div>
  );
}

async function readEntries(search: AuditSearch, onProgress: (count: number) => void) {
  const entries: Entry[] = [];
  let cursor: string | null = null;
  do {
    onProgress(entries.length);
    const query = { limit: PAGE, ...auditQuery(search), ...(cursor && { cursor }) };
    const page: components["schemas"]["LongListAnswer_AuditEntryAnswer_"] = await unwrap(
      api.GET("/api/audit/logs", { params: { query } }),
    );
    entries.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor !== null && entries.length < MOST);
  return { entries: entries.slice(0, MOST), hasMore: cursor !== null };
}
