import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useUser } from "../../api/account";
import { useConnections } from "../../api/lists";
import { uncovered } from "../../engines/coverage";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Confirm } from "../../parts/confirm";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { allRulesQuery, featureQuery, switchFeature } from "./access-rule-data";
import { text } from "./messages";

const NAMED = 20; // connections that the dialog names

/** Whether the rules apply, and the switch, which says first what it would hide. */
export function FeatureSwitch() {
  const { is_admin } = useUser();
  const queries = useQueryClient();
  const feature = useQuery(featureQuery);
  if (feature.error) return <Failure error={feature.error} onRetry={() => void feature.refetch()} />;
  if (feature.data === undefined) return null;
  const isOn = feature.data;
  return (
    <Notice kind={isOn ? "ok" : "held"}>
      <p>{isOn ? text.feature.on : text.feature.off}</p>
      {is_admin && (
        <Confirm
          label={isOn ? text.feature.switchOff : text.feature.switchOn}
          title={isOn ? text.feature.offTitle : text.feature.onTitle}
          action={() => switchFeature(!isOn)}
          onDone={() => void queries.invalidateQueries()}
        >
          {isOn ? text.feature.offText : <WhatItHides />}
        </Confirm>
      )}
    </Notice>
  );
}

function WhatItHides() {
  const rules = useQuery(allRulesQuery);
  const connections = useConnections();
  if (rules.error) return <Failure error={rules.error} onRetry={() => void rules.refetch()} />;
  if (!rules.data) return null;
  const names = uncovered(rules.data, connections);
  return (
    <div className="stack">
      <p>{text.feature.onText}</p>
      <p>{names.length > 0 ? counted(text.feature.hides, names.length) : text.feature.hidesNone}</p>
      {names.length > 0 && (
        <p className="mono words">
          <MarkedText text={names.slice(0, NAMED).join(", ")} />
          {names.length > NAMED && ` ${common.andMore(names.length - NAMED)}`}
        </p>
      )}
    </div>
  );
}
