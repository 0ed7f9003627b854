// What the navigation leads to, and for whom.

import {
  Archive,
  BookOpenText,
  Cable,
  ChartNoAxesColumn,
  ClipboardCheck,
  EyeOff,
  FileClock,
  House,
  KeyRound,
  type LucideIcon,
  Network,
  ScrollText,
  Server,
  Settings,
  ShieldCheck,
  UserCheck,
  Users,
  Webhook,
} from "lucide-react";
import type { User } from "../api/account";
import { text } from "./messages";

export interface Place {
  to: string;
  title: string;
  Icon: LucideIcon;
}

export interface PlaceGroup {
  /** Its heading; none for what everybody uses. */
  title?: string;
  places: Place[];
  isFor: (user: User) => boolean;
}

/** Administrators change, auditors read: both see all of the organisation. */
export const readsAll = (user: User) => user.role === "admin" || user.role === "auditor";

const everybody = () => true;

export const PLACES: PlaceGroup[] = [
  {
    isFor: everybody,
    places: [
      { to: "/", title: text.home, Icon: House },
      { to: "/connections", title: text.connections, Icon: Cable },
      { to: "/reviews", title: text.reviews, Icon: UserCheck },
      { to: "/sessions", title: text.sessions, Icon: ScrollText },
      { to: "/runbooks", title: text.runbooks, Icon: BookOpenText },
    ],
  },
  {
    title: text.rules,
    isFor: readsAll,
    places: [
      { to: "/guardrails", title: text.guardrails, Icon: ShieldCheck },
      { to: "/masking", title: text.masking, Icon: EyeOff },
      { to: "/review-rules", title: text.reviewRules, Icon: ClipboardCheck },
      { to: "/access-rules", title: text.accessRules, Icon: KeyRound },
      { to: "/network-rules", title: text.networkRules, Icon: Network },
    ],
  },
  {
    title: text.people,
    isFor: readsAll,
    places: [
      { to: "/people", title: text.allPeople, Icon: Users },
      { to: "/agents", title: text.agents, Icon: Server },
    ],
  },
  {
    title: text.operations,
    isFor: readsAll,
    places: [
      { to: "/audit", title: text.auditLog, Icon: FileClock },
      { to: "/reports", title: text.reports, Icon: ChartNoAxesColumn },
      { to: "/retention", title: text.retention, Icon: Archive },
    ],
  },
  {
    title: text.settingsGroup,
    isFor: readsAll,
    places: [
      { to: "/integrations", title: text.integrations, Icon: Webhook },
      { to: "/settings", title: text.settings, Icon: Settings },
    ],
  },
];
