// A worker that draws a recording on a hidden terminal while its pages arrive, so that the page stays quick.

import "./worker-globals";
import { SerializeAddon } from "@xterm/addon-serialize";
import { Terminal } from "@xterm/headless";
import { type HiddenTerminal, KeyFrameMaker } from "./key-frames";
import { type Chunk, FIRST_SIZE } from "./recording";

const terminal = new Terminal({
  cols: FIRST_SIZE.columns,
  rows: FIRST_SIZE.rows,
  scrollback: 0,
  allowProposedApi: true,
});
const serializer = new SerializeAddon();
terminal.loadAddon(serializer as unknown as Parameters<typeof terminal.loadAddon>[0]);

const hidden: HiddenTerminal = {
  write: (text) => new Promise((resolve) => terminal.write(text, resolve)),
  resize: ({ columns, rows }) => terminal.resize(columns, rows),
  draw: () => serializer.serialize(),
};
const maker = new KeyFrameMaker(hidden);

let work = Promise.resolve();
addEventListener("message", (event: MessageEvent<Chunk[]>) => {
  work = work.then(async () => postMessage(await maker.add(event.data)));
});
