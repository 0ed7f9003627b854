import { useState } from "react";
import type { ShownResult } from "../engines/results";
import { counted } from "../messages";
import { common } from "../messages/common";
import { Button } from "./button";
import { Result } from "./result";
import { Tabs } from "./tabs";

const SHOWN = 20; // tabs at a time; a script can have hundreds of statements

interface Props {
  results: ShownResult[];
  /** How many statements the script has, if that is known: the tabs of a script are there from its first result on. */
  statements?: number;
}

/** The results of a script: each in a tab, if there are several. */
export function Results({ results, statements = 0 }: Props) {
  const [chosen, setChosen] = useState<number | null>(null);
  const [visited, setVisited] = useState<ReadonlySet<number>>(new Set()); // what stays as it was left
  const [from, setFrom] = useState<number | null>(null); // the first tab shown
  const first = results[0];
  if (!first) return null;
  if (results.length === 1 && statements <= 1) return <Result result={first} />;
  const opened = results.find(({ number }) => number === chosen) ?? openedFirst(results) ?? first;
  const place = results.indexOf(opened);
  const begin = from ?? place - (place % SHOWN);
  const shown = results.slice(begin, begin + SHOWN);
  const open = (number: number) => {
    setVisited(new Set([...visited, opened.number, number]));
    setChosen(number);
  };
  const turn = (to: number) => {
    setFrom(to);
    const next = results[to];
    setVisited(new Set()); // those of other tabs are not kept
    if (next) setChosen(next.number);
  };
  return (
    <Tabs
      label={common.results.list}
      tabs={shown.map((result) => ({ id: String(result.number), title: titleOf(result), result }))}
      selected={String(opened.number)}
      onSelect={(id) => open(Number(id))}
      actions={results.length > SHOWN && <Turn from={begin} all={results.length} onTurn={turn} />}
    >
      {({ result }) => (result === opened || visited.has(result.number)) && <Result result={result} />}
    </Tabs>
  );
}

/** Return the result that is open unless the user chooses: the first with rows, else one that says something. */
function openedFirst(results: ShownResult[]): ShownResult | undefined {
  return (
    results.find(({ columns }) => columns.length > 0) ??
    results.find(({ isFailed }) => isFailed) ??
    results.find(({ notices }) => notices.length > 0)
  );
}

function titleOf({ number, columns, rows, tag, isOpen, isFailed }: ShownResult): string {
  const { title, failed, noTag } = common.results;
  if (isFailed) return title(number, failed);
  if (columns.length === 0) return title(number, tag || noTag);
  return title(number, counted(isOpen ? common.rowsSoFar : common.rows, rows.length));
}

/** Other tabs of a script with very many results. */
function Turn({ from, all, onTurn }: { from: number; all: number; onTurn: (to: number) => void }) {
  return (
    <div className="row">
      <span className="secondary">{common.results.range(from + 1, Math.min(from + SHOWN, all), all)}</span>
      <Button onPress={() => onTurn(from - SHOWN)} isDisabled={from === 0}>
        {common.results.earlier}
      </Button>
      <Button onPress={() => onTurn(from + SHOWN)} isDisabled={from + SHOWN >= all}>
        {common.results.later}
      </Button>
    </div>
  );
}
