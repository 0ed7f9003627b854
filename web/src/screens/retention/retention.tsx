import { useQuery } from "@tanstack/react-query";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { Facts } from "../../parts/facts";
import { Failure, Notice } from "../../parts/notice";
import { Section } from "../../parts/section";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { ConnectionRetentions } from "./connection-retentions";
import { keptText } from "./days";
import { text } from "./messages";
import { RetentionForm } from "./retention-form";
import { RetentionPage } from "./retention-page";

/** How long the organisation keeps recordings and sessions, and which connections have another retention. */
export function RetentionScreen() {
  const isReadOnly = useUser()?.role !== "admin";
  const query = useQuery({ queryKey: ["retention", "own"], queryFn: () => unwrap(api.GET("/api/retention")) });
  const retention = query.data;
  return (
    <RetentionPage path="/retention">
      <Section title={text.policy.title}>
        <p className="secondary">{text.policy.about}</p>
        {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
        {query.isPending && <Skeleton rows={3} />}
        {retention && (
          <>
            <Facts
              facts={[
                [text.policy.inForce, keptText(retention.in_force)],
                ...(retention.effective_at
                  ? [[text.policy.pending, <Time key="at" at={retention.effective_at} isExact />] as const]
                  : []),
              ]}
            />
            {retention.effective_at && (
              <Notice kind="held">
                <p>{text.policy.pendingNote}</p>
              </Notice>
            )}
            <RetentionForm
              key={`${retention.recording_days} ${retention.session_days}`}
              start={retention}
              isReadOnly={isReadOnly}
            />
          </>
        )}
      </Section>
      <ConnectionRetentions isReadOnly={isReadOnly} />
    </RetentionPage>
  );
}
