import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { counted } from "../../messages";
import { Button } from "../../parts/button";
import { Chip } from "../../parts/chip";
import { Download } from "../../parts/download";
import { type Filter, Filters } from "../../parts/filters";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import type { LogSearch } from "./levels";
import styles from "./log.module.css";
import { text } from "./messages";
import { SettingsPage } from "./settings-page";
import { type LogLine, MOST, useLog } from "./use-log";

const FILTERS: Filter<keyof LogSearch>[] = [
  { name: "level", label: text.log.level, options: Object.entries(text.log.levels) },
  { name: "process", label: text.log.process },
];
const KINDS: Record<string, "off" | "info" | "held" | "refused"> = {
  ...({ debug: "off", info: "info", warning: "held", error: "refused", critical: "refused" } as const),
};

/** The server's log while it is written, the newest line first. */
export function LogScreen() {
  const search = useSearch({ from: "/shell/settings/log" });
  const navigate = useNavigate({ from: "/settings/log" });
  const { lines, state, error } = useLog(search);
  const [paused, setPaused] = useState<LogLine[] | null>(null);
  const shown = paused ?? lines;
  const waiting = paused ? lines.filter(({ at }) => at > (paused.at(-1)?.at ?? "")).length : 0;
  return (
    <SettingsPage
      path="/settings/log"
      aside={
        <div className="row">
          <Button onPress={() => setPaused(paused ? null : lines)}>{paused ? text.log.resume : text.log.pause}</Button>
          <Download label={text.log.download} name="server-log.txt" content={() => shown.map(lineText).join("\n")} />
        </div>
      }
    >
      <p className="secondary">{text.log.about}</p>
      <Filters
        filters={FILTERS}
        values={search}
        onChange={(values) => {
          setPaused(null);
          void navigate({ search: values as LogSearch });
        }}
      />
      <p role="status" className="secondary">
        {paused ? text.log.states.paused : text.log.states[state]} {waiting > 0 && counted(text.log.waiting, waiting)}
      </p>
      {error && <Failure error={error} />}
      {shown.length === 0 && state === "live" && <p>{text.log.none}</p>}
      <ol className={styles.log} aria-label={text.log.lines}>
        {shown.toReversed().map((line) => (
          <Line key={line.id} line={line} />
        ))}
      </ol>
      {shown.length >= MOST && <p className="secondary">{text.log.most(MOST)}</p>}
    </SettingsPage>
  );
}

function Line({ line: { at, level, process, logger, message, more } }: { line: LogLine }) {
  const fields = Object.entries(more).filter(([, value]) => value !== null);
  return (
    <li>
      <time dateTime={at}>{at.slice(0, 23).replace("T", " ")}</time>
      <Chip kind={KINDS[level.toLowerCase()] ?? "off"}>{level}</Chip>
      <span className="secondary">
        {process} {logger}
      </span>
      <span className={styles.message}>
        <MarkedText text={message} />
        {fields.length > 0 && (
          <span className="secondary">
            {" "}
            <MarkedText text={fields.map(([name, value]) => `${name}=${fieldText(value)}`).join(" ")} />
          </span>
        )}
      </span>
    </li>
  );
}

function fieldText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function lineText({ at, level, process, logger, message, more }: LogLine): string {
  return `${at} ${level} ${process} ${logger}: ${message} ${JSON.stringify(more)}`;
}
