import { useQuery } from "@tanstack/react-query";
import { Link, useBlocker, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { counted } from "../../messages";
import { Button } from "../../parts/button";
import { Choice } from "../../parts/choice";
import { Dialog } from "../../parts/dialog";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Skeleton } from "../../parts/table";
import { Tabs } from "../../parts/tabs";
import { FONT_SIZE } from "../../parts/terminal-view";
import { text } from "./messages";
import { type Needs, useNeeds } from "./needs";
import styles from "./terminal.module.css";
import { type TabState, TerminalTab } from "./terminal-tab";

const FONT_SIZES = ["10", "11", "12", "13", "14", "16", "18", "20", "24"] as const;

/** Terminals of one connection, each a session of its own, in tabs that are only in this page. */
export function TerminalScreen() {
  const { connection } = useParams({ from: "/shell/terminal/$connection" });
  const query = useQuery({
    queryKey: ["connection", connection],
    queryFn: () => unwrap(api.GET("/api/connections/{nameOrID}", { params: { path: { nameOrID: connection } } })),
  });
  const { needs, error } = useNeeds(query.data);
  const about = (
    <Link to="/connections/$name" params={{ name: connection }}>
      {text.connection}
    </Link>
  );
  return (
    <Page title={text.title(connection)} aside={about}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {error && <Failure error={error} />}
      {!needs && !query.error && !error && <Skeleton rows={3} />}
      {needs && <Terminals key={connection} connection={connection} needs={needs} />}
    </Page>
  );
}

interface OpenTab extends TabState {
  id: string;
  number: number;
  opensAtOnce: boolean;
}

const newTab = (number: number, opensAtOnce: boolean): OpenTab => ({
  id: String(number),
  number,
  opensAtOnce,
  phase: opensAtOnce ? "opening" : "form",
  title: "",
});

function Terminals({ connection, needs }: { connection: string; needs: Needs }) {
  const [tabs, setTabs] = useState<OpenTab[]>([newTab(1, false)]);
  const [selected, setSelected] = useState("1");
  const [fontSize, setFontSize] = useState<string>(String(FONT_SIZE));
  const isFree = needs.review === null && needs.prompts.length === 0;
  const change = (id: string, part: Partial<TabState>) =>
    setTabs((before) => before.map((tab) => (tab.id === id ? { ...tab, ...part } : tab)));
  const add = (opensAtOnce: boolean, others: OpenTab[]) => {
    const tab = newTab(Math.max(0, ...tabs.map(({ number }) => number)) + 1, opensAtOnce);
    setTabs([...others, tab]);
    setSelected(tab.id);
  };
  const close = (id: string) => {
    const others = tabs.filter((tab) => tab.id !== id);
    const last = others.at(-1);
    if (last === undefined) return add(false, []);
    setTabs(others);
    setSelected(last.id);
  };
  const isStarting = tabs.some(({ phase }) => phase === "form");
  return (
    <>
      <Tabs
        label={text.tabs}
        tabs={tabs.map((tab) => ({ ...tab, title: <TabTitle tab={tab} /> }))}
        selected={selected}
        onSelect={setSelected}
        actions={
          <div className={styles.actions}>
            <Button kind="quiet" onPress={() => add(isFree, tabs)} isDisabled={isStarting || needs.hindrance !== null}>
              {text.newTerminal}
            </Button>
            <Choice
              label={text.fontSize}
              value={fontSize}
              options={FONT_SIZES.map((size) => [size, `${size} px`] as const)}
              onChange={setFontSize}
              isInline
            />
          </div>
        }
      >
        {(tab) => (
          <TerminalTab
            connection={connection}
            number={tab.number}
            needs={needs}
            opensAtOnce={tab.opensAtOnce}
            fontSize={Number(fontSize)}
            onChange={(part) => change(tab.id, part)}
            onClose={() => close(tab.id)}
          />
        )}
      </Tabs>
      <LeaveGuard open={tabs.filter(({ phase }) => phase !== "form" && phase !== "ended").length} />
    </>
  );
}

function TabTitle({ tab }: { tab: OpenTab }) {
  const state = text.phase[tab.phase];
  return (
    <>
      <bdi className={styles.title}>{text.tab(tab.number, tab.title)}</bdi>
      {state && <span className="secondary">{state}</span>}
    </>
  );
}

/** Ask before terminals end because their page is left. */
function LeaveGuard({ open }: { open: number }) {
  const blocker = useBlocker({
    // A login that has ended leads to the next one, and has ended its terminals.
    shouldBlockFn: ({ current, next }) => open > 0 && current.pathname !== next.pathname && next.pathname !== "/login",
    enableBeforeUnload: () => open > 0,
    withResolver: true,
  });
  if (blocker.status !== "blocked") return null;
  return (
    <Dialog title={counted(text.leave.title, open)} isOpen onClose={blocker.reset}>
      <p>{text.leave.text}</p>
      <div className="row">
        <Button kind="danger" onPress={blocker.proceed}>
          {text.leave.end}
        </Button>
        <Button onPress={blocker.reset}>{text.leave.stay}</Button>
      </div>
    </Dialog>
  );
}
