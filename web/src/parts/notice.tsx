import type { ReactNode } from "react";
import { ApiError } from "../api/errors";
import { common } from "../messages/common";
import { Button } from "./button";
import { MarkedText } from "./marked-text";
import styles from "./notice.module.css";

interface NoticeProps {
  kind: "info" | "held" | "refused" | "ok";
  children: ReactNode;
}

/** A message in its place; an error or a refusal interrupts screen readers. */
export function Notice({ kind, children }: NoticeProps) {
  return (
    <div role={kind === "refused" ? "alert" : "status"} className={`${styles.notice} ${styles[kind]}`}>
      {children}
    </div>
  );
}

/** What went wrong, in the gateway's own words, with the request to quote and a way to try again. */
export function Failure({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  return (
    <Notice kind="refused">
      <p>
        <MarkedText text={error.message} />
      </p>
      {error instanceof ApiError && error.requestId && error.status >= 500 && (
        <p className="mono">{common.requestId(error.requestId)}</p>
      )}
      {onRetry && <Button onPress={onRetry}>{common.tryAgain}</Button>}
    </Notice>
  );
}
