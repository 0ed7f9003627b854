// Sums of the rows of reports.

export interface Counts {
  sessions: number;
  refused: number;
  failed: number;
  killed: number;
  masked: number;
}

export interface GroupCounts extends Counts {
  group: string;
}

/** Add up the rows of a report that has one for each interval and group: one for each group, most sessions first. */
export function sumGroups(rows: readonly (Counts & { group: string | null })[]): GroupCounts[] {
  const sums = new Map<string, GroupCounts>();
  for (const row of rows) {
    const group = row.group ?? "";
    const sum = sums.get(group) ?? { group, sessions: 0, refused: 0, failed: 0, killed: 0, masked: 0 };
    sums.set(group, {
      group,
      sessions: sum.sessions + row.sessions,
      refused: sum.refused + row.refused,
      failed: sum.failed + row.failed,
      killed: sum.killed + row.killed,
      masked: sum.masked + row.masked,
    });
  }
  return [...sums.values()].sort((a, b) => b.sessions - a.sessions || a.group.localeCompare(b.group));
}

/** Add up masked values over all resources: one row for each information type, most values first. */
export function sumTypes(
  rows: readonly { info_type: string; redact_total: number }[],
): { type: string; count: number }[] {
  const sums = new Map<string, number>();
  for (const { info_type, redact_total } of rows) sums.set(info_type, (sums.get(info_type) ?? 0) + redact_total);
  return [...sums]
    .map(([type, count]) => ({ type, count }))
    .sort((a, b) => b.count - a.count || a.type.localeCompare(b.type));
}
