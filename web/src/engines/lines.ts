/** Splits a text that comes in chunks of bytes into its lines, wherever the chunks end. */
export class LineSplitter {
  private readonly decoder = new TextDecoder();
  // A long line is joined once it is whole: joining it with each chunk would copy it as often.
  private pieces: string[] = [];

  /** Return the lines that end in this chunk, without their ends. Empty ones are left out. */
  push(chunk: Uint8Array): string[] {
    return this.split(this.decoder.decode(chunk, { stream: true }));
  }

  /** Return what follows the last end of a line, if anything does. */
  finish(): string[] {
    return this.split(`${this.decoder.decode()}\n`);
  }

  private split(text: string): string[] {
    const lines = text.split("\n");
    const rest = lines.pop() ?? "";
    const [first] = lines;
    if (first !== undefined) {
      lines[0] = [...this.pieces, first].join("");
      this.pieces = [];
    }
    if (rest) this.pieces.push(rest);
    return lines.filter((line) => line !== "");
  }
}
