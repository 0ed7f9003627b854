import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { type Preview, previewScript } from "../../api/scripts";
import { Chip } from "../../parts/chip";
import { MarkedText } from "../../parts/marked-text";
import { useSettled } from "../../parts/use-settled";
import type { Judged } from "./judged";
import { text } from "./messages";
import styles from "./sql.module.css";

const PAUSE = 600; // milliseconds without a key after which the script is judged
const LONGEST = 65_536; // characters of a script that can be judged
const KINDS = { allow: "ok", warn: "info", hold: "held", deny: "refused" } as const;

interface Props {
  connection: string;
  script: string;
  parameters: Record<string, string | null> | undefined;
  /** Whether it is looked at: only then it asks. */
  isShown: boolean;
  /** Gets what the preview says, or null if there is none. */
  onJudged: (judged: Judged | null) => void;
}

/** What would be refused, held or warned about if the script ran now. */
export function PreviewBar({ connection, script, parameters, isShown, onJudged }: Props) {
  const asked = useSettled({ connection, script, ...(parameters && { parameters }) }, PAUSE);
  const canBeAsked = asked.script.trim() !== "" && asked.script.length <= LONGEST;
  const preview = useQuery({
    queryKey: ["preview", asked],
    enabled: isShown && canBeAsked,
    placeholderData: keepPreviousData,
    staleTime: 30_000,
    retry: false,
    queryFn: () => previewScript(asked),
  });
  const { data, isPlaceholderData } = preview;
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is told once for each preview
  useEffect(() => {
    if (!canBeAsked) onJudged(null);
    else if (data && !isPlaceholderData) onJudged({ script: asked.script, preview: data });
  }, [canBeAsked, asked, data, isPlaceholderData]);
  if (!asked.script.trim()) return null;
  if (asked.script.length > LONGEST) return <p className="secondary">{text.tooLongToPreview}</p>;
  if (preview.error) return <p className="secondary">{text.noPreview(preview.error.message)}</p>;
  if (!data) return null;
  return <Judgement preview={data} />;
}

function Judgement({ preview }: { preview: Preview }) {
  const groups = preview.review.approvers.flatMap((approver) => approver.groups);
  return (
    <section className={styles.preview} aria-label={text.preview} aria-live="polite">
      <Chip kind={KINDS[preview.outcome]}>{text.outcomes[preview.outcome]}</Chip>
      {preview.review.required && <Chip kind="held">{text.reviewFirst(groups)}</Chip>}
      {preview.outcome === "hold" && <span>{text.heldBy(preview.held_by)}</span>}
      <Effects preview={preview} />
      {preview.syntax_error && (
        <span>
          <MarkedText text={text.cannotParse(preview.syntax_error.message)} />
        </span>
      )}
      {preview.messages.map(({ rule, message, hint }) => (
        <p key={`${rule} ${message}`} className={styles.told}>
          <MarkedText text={hint ? `${message} ${hint}` : message} />
        </p>
      ))}
    </section>
  );
}

/** What the statements do, each effect once; a write without a condition is said. */
function Effects({ preview }: { preview: Preview }) {
  const effects = [...new Set(preview.statements.flatMap((statement) => statement.effects))];
  const isUnconditional = preview.statements.some((statement) => statement.without_where);
  return (
    <>
      {effects.map((effect) => (
        <Chip key={effect} kind="off">
          {effect}
        </Chip>
      ))}
      {isUnconditional && <Chip kind="held">{text.withoutWhere}</Chip>}
    </>
  );
}
