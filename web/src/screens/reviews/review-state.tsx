import type { components } from "../../api/schema";
import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { text } from "./messages";

type Review = Pick<components["schemas"]["ReviewAnswer"], "status" | "outcome">;

const KINDS = {
  PENDING: "held",
  APPROVED: "ok",
  PROCESSING: "info",
  EXECUTED: "ok",
  REJECTED: "refused",
  REVOKED: "refused",
  EXPIRED: "off",
  WITHDRAWN: "off",
} as const;

/** How far a review is, or how it ended. */
export function ReviewState({ review }: { review: Review }) {
  return (
    <Chip kind={KINDS[review.status]}>
      {review.outcome ? text.list.outcomes[review.outcome] : common.reviewStatuses[review.status]}
    </Chip>
  );
}
