// Plays a recorded terminal: draws what was shown up to a moment, forwards as time goes by, and anywhere by a picture.

import { EMPTY_FRAME, frameBefore, type KeyFrame } from "./key-frames";
import { type Chunk, Clock, FIRST_SIZE, type Size } from "./recording";

/** The terminal on the page. */
export interface Screen {
  write: (text: string) => void;
  resize: (size: Size) => void;
  reset: () => void;
}

export class Player {
  private chunks: Chunk[] = [];
  private frames: KeyFrame[] = [EMPTY_FRAME];
  private clock: Clock;
  /** How many chunks are drawn. */
  private drawn = 0;
  /** Where the replay is, in its own time. */
  position = 0;

  constructor(
    private readonly screen: Screen,
    private longestPause: number,
  ) {
    this.clock = new Clock([], longestPause);
  }

  get duration(): number {
    return this.clock.duration;
  }

  get isAtEnd(): boolean {
    return this.position >= this.clock.duration;
  }

  /** The moment of the recording, in its time. */
  get recordedAt(): number {
    return this.clock.recordedAt(this.position);
  }

  get all(): readonly Chunk[] {
    return this.chunks;
  }

  addChunks(chunks: readonly Chunk[]): void {
    this.chunks.push(...chunks);
    this.clock = new Clock(this.chunks, this.longestPause);
  }

  addFrames(frames: readonly KeyFrame[]): void {
    this.frames.push(...frames);
  }

  /** Shorten pauses to this many milliseconds, and stay at the same moment. */
  setLongestPause(pause: number): void {
    const moment = this.recordedAt;
    this.longestPause = pause;
    this.clock = new Clock(this.chunks, pause);
    this.position = this.clock.playedAt(moment);
  }

  /** Play on by this much of the replay's time. */
  advance(milliseconds: number): void {
    this.position = Math.min(this.position + milliseconds, this.clock.duration);
    this.drawTo(this.countUntil(this.recordedAt));
  }

  seek(position: number): void {
    this.position = Math.min(Math.max(position, 0), this.clock.duration);
    const target = this.countUntil(this.recordedAt);
    const frame = frameBefore(this.frames, target);
    if (target < this.drawn || frame.index > this.drawn) {
      this.screen.reset();
      this.screen.resize(frame.index === 0 ? FIRST_SIZE : frame.size);
      this.screen.write(frame.text);
      this.drawn = frame.index;
    }
    this.drawTo(target);
  }

  /** Go to a moment of the recording, in its time. */
  seekRecorded(moment: number): void {
    this.seek(this.clock.playedAt(moment));
  }

  private drawTo(target: number): void {
    let text = "";
    for (; this.drawn < target; this.drawn += 1) {
      const chunk = this.chunks[this.drawn];
      if (chunk?.kind === "output") text += chunk.text;
      else if (chunk) {
        this.screen.write(text);
        text = "";
        this.screen.resize(chunk.size);
      }
    }
    if (text) this.screen.write(text);
  }

  /** Return how many chunks were shown until this moment. */
  private countUntil(moment: number): number {
    let [low, high] = [0, this.chunks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.chunks[middle]?.at ?? 0) <= moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
