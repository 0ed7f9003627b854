// Pictures of a recorded terminal at intervals, so that a replay can begin anywhere without drawing all that came before.

import { type Chunk, FIRST_SIZE, lastAtMost, type Size } from "./recording";

/** The screen as it is before the chunk at `index`: text that draws it on an empty terminal of this size. */
export interface KeyFrame {
  index: number;
  size: Size;
  text: string;
}

export const EMPTY_FRAME: KeyFrame = { index: 0, size: FIRST_SIZE, text: "" };

/** A terminal that nobody sees, which says how its screen could be drawn again. */
export interface HiddenTerminal {
  write: (text: string) => Promise<void>;
  resize: (size: Size) => void;
  /** Whether text can say all that the next output depends on; at most moments it can. */
  canBeDrawn: () => boolean;
  draw: () => string;
}

const BETWEEN = 65_536; // characters of output from one picture to the next
const LATEST = 8; // times as many: then it is drawn as well as it can be

/** Draws chunks on a hidden terminal, and keeps a picture of it now and then. */
export class KeyFrameMaker {
  private size = FIRST_SIZE;
  private pending = "";
  private sinceFrame = 0;
  private index = 0;

  constructor(
    private readonly terminal: HiddenTerminal,
    private readonly between = BETWEEN,
  ) {}

  /** Return the pictures that these further chunks lead to. */
  async add(chunks: readonly Chunk[]): Promise<KeyFrame[]> {
    const frames: KeyFrame[] = [];
    for (const chunk of chunks) {
      if (await this.isDue()) frames.push(this.take());
      await this.draw(chunk);
      this.index += 1;
    }
    await this.flush();
    return frames;
  }

  private async draw(chunk: Chunk): Promise<void> {
    if (chunk.kind === "output") {
      this.pending += chunk.text;
      this.sinceFrame += chunk.text.length;
      return;
    }
    await this.flush();
    this.size = chunk.size;
    this.terminal.resize(chunk.size);
  }

  private async isDue(): Promise<boolean> {
    if (this.sinceFrame < this.between) return false;
    await this.flush();
    return this.terminal.canBeDrawn() || this.sinceFrame >= LATEST * this.between;
  }

  private take(): KeyFrame {
    this.sinceFrame = 0;
    return { index: this.index, size: this.size, text: this.terminal.draw() };
  }

  private async flush(): Promise<void> {
    if (this.pending) await this.terminal.write(this.pending);
    this.pending = "";
  }
}

/** Return the last picture before the chunk at `index`. */
export function frameBefore(frames: readonly KeyFrame[], index: number): KeyFrame {
  const place = lastAtMost(
    frames.map((frame) => frame.index),
    index,
  );
  const frame = frames[place];
  return frame && frame.index <= index ? frame : EMPTY_FRAME;
}
