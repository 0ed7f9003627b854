// Which connections a rule covers that names some, and covers all that have its tags.

export interface Covering {
  connection_names: readonly string[];
  connection_tags: Readonly<Record<string, string>>;
}

export interface Tagged {
  name: string;
  connection_tags: Readonly<Record<string, string>>;
}

/** Whether the rule names the connection, or the connection has all of the rule's tags. No tags match nothing. */
export function covers(rule: Covering, connection: Tagged): boolean {
  if (rule.connection_names.includes(connection.name)) return true;
  const tags = Object.entries(rule.connection_tags);
  return tags.length > 0 && tags.every(([key, value]) => connection.connection_tags[key] === value);
}

/** Return the tags of rows of a form; rows without a key are not filled in yet. */
export function tagsOf(pairs: readonly [string, string][]): Record<string, string> {
  return Object.fromEntries(pairs.filter(([key]) => key.trim()).map(([key, value]) => [key.trim(), value.trim()]));
}

export interface GroupRule extends Covering {
  name: string;
  groups: readonly string[];
}

/** What one group can use: each connection with the rules that allow it. */
export interface GroupAccess<Rule extends GroupRule> {
  group: string;
  connections: string[];
  rules: Rule[];
}

/** Return what the rules allow to each of their groups, by the groups' names. */
export function accessByGroup<Rule extends GroupRule>(
  rules: readonly Rule[],
  connections: readonly Tagged[],
): GroupAccess<Rule>[] {
  const groups = [...new Set(rules.flatMap((rule) => rule.groups))].sort((one, other) => one.localeCompare(other));
  return groups.map((group) => {
    const own = rules.filter((rule) => rule.groups.includes(group));
    const covered = connections.filter((connection) => own.some((rule) => covers(rule, connection)));
    return { group, rules: own, connections: covered.map(({ name }) => name) };
  });
}

/** Return the names of connections that no rule covers: only administrators use them, once rules apply. */
export function uncovered(rules: readonly Covering[], connections: readonly Tagged[]): string[] {
  return connections.filter((connection) => !rules.some((rule) => covers(rule, connection))).map(({ name }) => name);
}
