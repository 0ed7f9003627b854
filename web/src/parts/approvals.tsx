import type { components } from "../api/schema";
import { counted } from "../messages";
import { common } from "../messages/common";
import { MarkedText } from "./marked-text";

type Demand = components["schemas"]["ReviewAnswer"]["demands"][number];

/** The approvals that a request needs, and which of them it has. */
export function Approvals({ demands }: { demands: Demand[] }) {
  return (
    <ul>
      {demands.map((demand) => (
        <li key={`${demand.rule} ${demand.groups}`}>
          {demand.is_met ? "✓ " : "○ "}
          <span className="visually-hidden">{demand.is_met ? common.isApproved : common.isMissing}</span>
          <MarkedText text={approversOf(demand)} />
        </li>
      ))}
    </ul>
  );
}

function approversOf({ groups, all_groups_must_approve, min_approvals, rule }: Demand): string {
  const isEach = all_groups_must_approve && groups.length > 1;
  const members = counted(common.members, isEach ? Math.max(min_approvals, groups.length) : min_approvals);
  const who = isEach ? common.membersOfEach(members, groups) : common.membersOf(members, groups);
  return rule ? common.byRule(who, rule) : who;
}
