interface Said {
  severity: string;
  text: string;
}

const NOTE = /^\[note\] (.*?)(?: \([^()]*\))?$/s;

/** Return the notices without the recording's notes about what the client was told in the same words. */
export function withoutRepeats<Notice extends Said>(notices: readonly Notice[]): Notice[] {
  const told = new Set(notices.filter(({ severity }) => severity !== "NOTE").map(({ text }) => text.trim()));
  return notices.filter(({ severity, text }) => severity !== "NOTE" || !told.has(NOTE.exec(text.trim())?.[1] ?? text));
}
