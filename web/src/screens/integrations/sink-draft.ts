import { type Resource, resource } from "../../api/resource";
import type { components } from "../../api/schema";
import { type EventKind, NEEDS, type SinkKind } from "./kinds";

/** A sink; `secret` is there only in the answer that created it. */
export type Sink = components["schemas"]["SinkAnswer"] & { secret?: string | null };

export interface SinkDraft {
  name: string;
  kind: SinkKind;
  address: string;
  authority: string;
  events: EventKind[];
  options: Record<string, string>;
  /** What was typed; what is stored is never shown, and stays where nothing was typed. */
  keys: Record<string, string>;
  headers: [string, string][];
  connections: string[];
  groups: string[];
  tags: [string, string][];
  paused: boolean;
  withScript: boolean;
}

export const blankSink = (kind: SinkKind): SinkDraft => ({
  ...{ name: "", kind, address: "", authority: "", events: [], options: {}, keys: {}, headers: [] },
  ...{ connections: [], groups: [], tags: [], paused: false, withScript: false },
});

export function draftOfSink(sink: Sink): SinkDraft {
  const { name, kind, address, authority, events, options, scope, paused, with_script: withScript } = sink;
  const { connections = [], groups = [], connection_tags = {} } = scope;
  const tags = Object.entries(connection_tags);
  return {
    name,
    kind,
    address,
    authority,
    events,
    options,
    keys: {},
    headers: [],
    connections,
    groups,
    tags,
    paused,
    withScript,
  };
}

function bodyOf(draft: SinkDraft): components["schemas"]["SinkRequest"] {
  const { name, kind, address, authority, events, options, connections, groups, tags, paused } = draft;
  const keys = Object.entries(draft.keys).filter(([, value]) => value);
  const headers = draft.headers.filter(([header]) => header);
  const tagged = Object.fromEntries(tags.filter(([tag]) => tag));
  return {
    name,
    kind,
    paused,
    with_script: draft.withScript,
    scope: { connections, groups, connection_tags: tagged },
    ...(address && { address }),
    ...(authority && { authority }),
    ...(events.length > 0 && { events }),
    ...(NEEDS[kind].options.length > 0 && { options }),
    ...(keys.length > 0 && { keys: Object.fromEntries(keys) }),
    ...(headers.length > 0 && { headers: Object.fromEntries(headers) }),
  };
}

const sinkRequests = resource<Sink, components["schemas"]["SinkRequest"]>("/api/sinks");

export const sinks: Resource<Sink, SinkDraft> = {
  ...sinkRequests,
  create: (draft) => sinkRequests.create(bodyOf(draft)),
  replace: (name, draft, version) => sinkRequests.replace(name, bodyOf(draft), version),
  change: () => Promise.reject(new TypeError("a sink is replaced as a whole")),
};
