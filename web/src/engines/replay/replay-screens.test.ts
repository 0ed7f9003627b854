// What a replay shows, drawn by the terminal of the application itself: seeking to any time shows what playing to it
// shows. The recording is of bash, vim, less and tmux, with splits, scroll regions and sizes that change.

import type { Terminal } from "@xterm/headless";
import { expect, test } from "vitest";
import { headlessTerminal } from "./headless-terminal";
import { KeyFrameMaker } from "./key-frames";
import { Player } from "./player";
import recorded from "./recorded-terminal.json";
import { type Chunk, type RecordedEvent, RecordingReader } from "./recording";

const CHUNKS = new RecordingReader().read(recorded as RecordedEvent[]);
const CLOSE = 2_000; // characters between two pictures: many more than in the application

/** A terminal on which a player draws. `looks` is what it shows once all is drawn, with its colours. */
function screen() {
  const { terminal, hidden } = headlessTerminal();
  let work = Promise.resolve();
  const then = (step: () => void | Promise<void>) => {
    work = work.then(step);
  };
  return {
    write: (text: string) => then(() => hidden.write(text)),
    resize: (size: { columns: number; rows: number }) => then(() => hidden.resize(size)),
    reset: () => then(() => terminal.reset()),
    looks: async () => {
      await work;
      const { cursorX, cursorY } = terminal.buffer.active;
      const rows = Array.from({ length: terminal.rows }, (_, row) => rowOf(terminal, row));
      return { cursor: [cursorX, cursorY], size: [terminal.cols, terminal.rows], rows };
    },
  };
}

/** The characters of a row, each with its colours and how it is drawn. */
function rowOf(terminal: Terminal, row: number): string {
  const line = terminal.buffer.active.getLine(terminal.buffer.active.viewportY + row);
  const cells = Array.from({ length: terminal.cols }, (_, column) => {
    const cell = line?.getCell(column);
    if (!cell) return "";
    const looks = [cell.getFgColorMode(), cell.getFgColor(), cell.getBgColorMode(), cell.getBgColor()];
    const styles = [cell.isBold(), cell.isInverse(), cell.isUnderline(), cell.isDim(), cell.isItalic()];
    return `${cell.getChars() || " "}<${[...looks, ...styles.map(Number)].join(" ")}>`;
  });
  return cells.join("");
}

/** A player of the whole recording, with pictures for seeking unless `between` is null. */
async function playerOf(chunks: readonly Chunk[], between: number | null) {
  const drawn = screen();
  const player = new Player(drawn, Number.POSITIVE_INFINITY);
  player.addChunks(chunks);
  if (between !== null) player.addFrames(await new KeyFrameMaker(headlessTerminal().hidden, between).add(chunks));
  return { player, looks: drawn.looks };
}

/** Numbers from 0 to 1 that are the same in each run. */
function* chance(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    yield state / 2 ** 31;
  }
}

const DURATION = CHUNKS.at(-1)?.at ?? 0;

/** Return the time of the first difference between what seeking and what playing shows, or null. */
async function firstDifference(chunks: readonly Chunk[], times: Iterable<number>): Promise<number | null> {
  const sought = await playerOf(chunks, CLOSE);
  for (const at of times) {
    sought.player.seek(at);
    const played = await playerOf(chunks, null);
    played.player.advance(at);
    if (JSON.stringify(await sought.looks()) !== JSON.stringify(await played.looks())) return at;
  }
  return null;
}

function* someTimes(seed: number, count: number): Generator<number> {
  const random = chance(seed);
  for (let made = 0; made < count; made += 1) yield Math.floor((random.next().value ?? 0) * DURATION);
}

test.each([1, 2, 3, 4])("seeking to any time shows what playing to it shows (%i)", async (seed) => {
  expect(await firstDifference(CHUNKS, someTimes(seed, 25))).toBeNull();
});

test("a recording that was cut within a character and a sequence is played to its end", async () => {
  const half = Math.floor(recorded.length / 2);
  const [at, kind] = recorded[half] as RecordedEvent;
  const cut: RecordedEvent[] = [...(recorded.slice(0, half) as RecordedEvent[]), [at, kind, btoa("end\xe6\xbc\x1b[3")]];
  const chunks = new RecordingReader().read(cut);
  const { player, looks } = await playerOf(chunks, CLOSE);
  player.advance(DURATION);
  expect([player.isAtEnd, player.recordedAt]).toEqual([true, at]);
  expect((await looks()).rows.map((row) => row.replace(/<[^>]*>/g, "")).join("\n")).toContain("end");
  expect(await firstDifference(chunks, [at, at - 1, 0, at])).toBeNull();
});

test("what was recorded asks the terminal for nothing", async () => {
  const { terminal, hidden } = headlessTerminal();
  const answers: string[] = [];
  terminal.onData((data) => answers.push(data));
  const hostile = ["\x1b[6n", "\x1b[c", "\x1b]10;?\x07", "\x1bP$qm\x1b\\", "\x1b[?1$p", "\x1b[18t", "\x1b]52;c;?\x07"];
  const events = hostile.map((text, index): RecordedEvent => [index, "o", btoa(text)]);
  for (const chunk of new RecordingReader().read([...(recorded as RecordedEvent[]), ...events]))
    if (chunk.kind === "output") await hidden.write(chunk.text);
  expect(answers).toEqual([]);
});
