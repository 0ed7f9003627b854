import "../src/tokens.css";
import "../src/base.css";
import { type ReactNode, StrictMode, useRef } from "react";
import { createRoot } from "react-dom/client";
import { MaskFinder } from "../src/engines/masks";
import { Names } from "../src/engines/sql/completion";
import { Grid } from "../src/parts/grid";
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
  return (
    <Grid label="Cells" columns={["plain", "masked"]} fields={FIELDS} rows={rows} maskAt={(...at) => MASKS.at(...at)} />
  );
}

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
        dialect="postgres"
        names={NAMES}
        handle={handle}
        onChange={call("change")}
        onSelect={call("select")}
        onRun={call("run")}
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
  editor: () => <Editor />,
};

const scene = SCENES[new URLSearchParams(location.search).get("scene") ?? ""];
const root = document.getElementById("root");
if (scene && root) createRoot(root).render(<StrictMode>{scene()}</StrictMode>);
