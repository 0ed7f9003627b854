import type { CatalogueAccess, Use } from "../api/catalogue";
import { counted } from "../messages";
import { common } from "../messages/common";
import { Chip } from "./chip";
import { MarkedText } from "./marked-text";
import styles from "./uses.module.css";

const USES: Use[] = ["connect", "exec", "runbooks", "schema"];

/** What the user may do with a connection: what needs a review is marked, and what is not allowed says why not. */
export function Uses({ access }: { access: CatalogueAccess }) {
  const allowed = USES.filter((use) => access.uses[use].allowed);
  const denied = USES.filter((use) => !access.uses[use].allowed);
  if (allowed.length === 0 && !access.allowed) return <Reason label={common.noUse} reasons={[access.reason]} />;
  return (
    <div className={styles.uses}>
      {allowed.length > 0 && (
        <ul className={styles.allowed}>
          {allowed.map((use) => (
            <li key={use}>
              {access.uses[use].needs_review ? (
                <Chip kind="held">{common.needsReview(common.uses[use])}</Chip>
              ) : (
                common.uses[use]
              )}
            </li>
          ))}
        </ul>
      )}
      {denied.length > 0 && (
        <Reason
          label={counted(common.notAllowed, denied.length)}
          reasons={denied.map((use) => common.deniedUse(common.uses[use], access.uses[use].reason))}
        />
      )}
    </div>
  );
}

function Reason({ label, reasons }: { label: string; reasons: string[] }) {
  return (
    <details className={styles.reasons}>
      <summary>{label}</summary>
      <ul>
        {reasons.map((reason) => (
          <li key={reason}>
            <MarkedText text={reason} />
          </li>
        ))}
      </ul>
    </details>
  );
}
