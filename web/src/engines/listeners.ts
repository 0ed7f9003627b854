// The listeners for native clients, in the order of the registry of protocols.

import { PROTOCOLS } from "./protocols";

type Facts = typeof PROTOCOLS;
export type ListenerName = {
  [Name in keyof Facts]: Facts[Name]["hasListener"] extends true ? Name : never;
}[keyof Facts];

export const LISTENERS = (Object.keys(PROTOCOLS) as (keyof Facts)[]).filter(
  (name): name is ListenerName => PROTOCOLS[name].hasListener,
);
