import "../src/tokens.css";
import "../src/base.css";
import { type ReactNode, StrictMode, useRef } from "react";
import { createRoot } from "react-dom/client";
import { MaskFinder } from "../src/engines/masks";
import { shownResult } from "../src/engines/results";
import { Names } from "../src/engines/sql/completion";
import { Grid } from "../src/parts/grid";
import { Result } from "../src/parts/result";
import { Results } from "../src/parts/results";
import { type EditorHandle, SqlEditor } from "../src/screens/sql/editor";

declare global {
  interface Window {
    /** What the component called, for tests. */
    calls: unknown[][];
  }
}
window.calls = [];

const call =
  (name: string) =>
  (...values: unknown[]) =>
    void window.calls.push([name, ...values]);

const numbered = (count: number) => Array.from({ length: count }, (_, place) => place);

function LargeGrid({ rows, columns }: { rows: number; columns: number }) {
  return (
    <Grid
      label="Cells"
      columns={numbered(columns).map((column) => `c${column}`)}
      rows={numbered(rows).map((row) => numbered(columns).map((column) => `${row}:${column}`))}
    />
  );
}

const FIELDS = [
  { name: "plain", type: "text", masked: null },
  { name: "masked", type: "text", masked: { rule: "people", strategy: "hash" } },
];
const CARD = { rule: null, strategy: "replace", info_types: ["CREDIT_CARD"] };
const MASKS = new MaskFinder({ masks: [CARD], cells: [[0, 1, 1, 0]] }, FIELDS);

function Texts({ rows }: { rows: (string | null)[][] }) {
  return <Grid label="Cells" columns={["plain", "masked"]} fields={FIELDS} rows={rows} masks={MASKS} />;
}

const TYPED = [
  { name: "id", type: "int4", masked: null },
  { name: "name", type: "text", masked: null },
  { name: "data", type: "jsonb", masked: null },
];
const TYPED_ROWS = [
  ["10", "beta", '{"id":12345678901234567890,"tags":["a","b"]}'],
  ["9", "alpha", null],
  [null, "gamma", "[]"],
  ["-2", "x".repeat(400), "{broken"],
];
const NAME = { rule: "people", strategy: "hash", info_types: [] };

/** The name of the first row is masked. */
function Typed({ isGrowing }: { isGrowing: boolean }) {
  return (
    <Grid
      label="Cells"
      columns={TYPED.map(({ name }) => name)}
      fields={TYPED}
      rows={TYPED_ROWS}
      masks={new MaskFinder({ masks: [NAME], cells: [[1, 0, 0, 0]] }, TYPED)}
      isGrowing={isGrowing}
    />
  );
}

const NOTHING = { columns: [], fields: [], masked: null, rows: [], tag: "", notices: [], truncated: false };

/** A script of 300 statements, of which each tenth returns rows, and the last one fails. */
function Script() {
  const results = numbered(300).map((place) => {
    const rows = { ...NOTHING, columns: ["n"], fields: [], rows: numbered(place).map((n) => [String(n)]) };
    const result = place % 10 === 9 ? rows : { ...NOTHING, tag: `INSERT 0 ${place}` };
    return shownResult({ ...result, error: place === 299 ? { severity: "ERROR", text: "no" } : null }, place);
  });
  return (
    <div>
      <Results results={results} />
    </div>
  );
}

function PlanOf({ lines }: { lines: string[] }) {
  const rows = lines.map((line) => [line]);
  return <Result result={shownResult({ ...NOTHING, columns: ["QUERY PLAN"], rows, tag: "EXPLAIN" }, 0)} />;
}

const SCAN = { "Node Type": "Seq Scan", "Relation Name": "orders", "Total Cost": 25, "Plan Rows": 9_000 };
const PLAN = JSON.stringify([{ Plan: { "Node Type": "Sort", "Total Cost": 100, "Plan Rows": 9_000, Plans: [SCAN] } }]);

const column = (name: string) => ({ name, type: "text" });
const NAMES = new Names([
  { schema: "public", name: "customers", columns: [column("id"), column("email")] },
  { schema: "public", name: "orders", columns: [column("id"), column("Total Sum")] },
]);

function Editor() {
  const handle = useRef<EditorHandle>(null);
  return (
    <div style={{ height: 200 }}>
      <SqlEditor
        label="Script"
        initial=""
        initialRan={null}
        isFocused
        dialect="postgres"
        names={NAMES}
        handle={handle}
        onChange={call("change")}
        onSelect={call("select")}
        onRun={call("run")}
        onMarks={call("marks")}
        onFormat={call("format")}
      />
      <button type="button" onClick={() => handle.current?.replace("select 'replaced'")}>
        Replace
      </button>
      <button type="button" onClick={() => handle.current?.insert("inserted")}>
        Insert
      </button>
    </div>
  );
}

const SCENES: Record<string, () => ReactNode> = {
  large: () => <LargeGrid rows={100_000} columns={50} />,
  wide: () => <LargeGrid rows={3} columns={10_000} />,
  empty: () => <LargeGrid rows={0} columns={3} />,
  huge: () => <Texts rows={[["x".repeat(100_000_000), "short"]]} />,
  texts: () => (
    <Texts
      rows={[
        ["=1+1", "a\tb"],
        ["+cmd", "two\nlines"],
        ["-5", 'say "hi"'],
        ["a\u202eb\u0000c", null],
      ]}
    />
  ),
  typed: () => <Typed isGrowing={false} />,
  growing: () => <Typed isGrowing />,
  script: () => <Script />,
  plan: () => <PlanOf lines={[PLAN]} />,
  textPlan: () => <PlanOf lines={["Seq Scan on orders", "  Filter: (a = 1)"]} />,
  editor: () => <Editor />,
};

const scene = SCENES[new URLSearchParams(location.search).get("scene") ?? ""];
const root = document.getElementById("root");
if (scene && root) createRoot(root).render(<StrictMode>{scene()}</StrictMode>);
