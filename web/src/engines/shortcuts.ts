// Which action a key stands for. Single letters count only where nothing is typed.

export type Shortcut = { kind: "palette" } | { kind: "help" } | { kind: "search" } | { kind: "go"; to: string };

/** A key as the browser has it, and whether it goes into a field. */
export interface Key {
  key: string;
  isCommand: boolean;
  isTyped: boolean;
}

/** Where `g` and a second letter lead. */
export const PLACES_BY_LETTER: Readonly<Record<string, string>> = {
  h: "/",
  c: "/connections",
  r: "/reviews",
  s: "/sessions",
};

/** Follows keys; one of them can be the second of two. */
export class Shortcuts {
  private isGoing = false;

  read({ key, isCommand, isTyped }: Key): Shortcut | null {
    const wasGoing = this.isGoing;
    this.isGoing = false;
    if (isCommand) return key.toLowerCase() === "k" ? { kind: "palette" } : null;
    if (isTyped) return null;
    if (wasGoing) {
      const to = PLACES_BY_LETTER[key];
      return to === undefined ? null : { kind: "go", to };
    }
    this.isGoing = key === "g";
    if (key === "?") return { kind: "help" };
    return key === "/" ? { kind: "search" } : null;
  }
}
