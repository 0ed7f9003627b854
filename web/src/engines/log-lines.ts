interface Line {
  id: string;
  at: string;
}

/** Add lines to those of a log: each once, by time, and only the newest `most` of them. */
export function addLines<Some extends Line>(lines: readonly Some[], added: readonly Some[], most: number): Some[] {
  const known = new Set(lines.map(({ id }) => id));
  const all = [...lines];
  for (const line of added) {
    if (known.has(line.id)) continue;
    known.add(line.id);
    all.push(line);
  }
  return all.sort((a, b) => Date.parse(a.at) - Date.parse(b.at)).slice(-most);
}
