import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { FormDialog } from "../../parts/form-dialog";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Section } from "../../parts/section";
import { Skeleton, Table } from "../../parts/table";
import { Time } from "../../parts/time";
import { factorsQuery, newRecoveryCodes, removeFactor } from "./factors-data";
import { text } from "./messages";
import { NewFactor } from "./new-factor";
import { NO_PROOF, ProofInput, proofOf } from "./proof";
import { RecoveryCodes } from "./recovery-codes";

/** The user's second factors: add, remove, new recovery codes. */
export function SecondFactors() {
  const queries = useQueryClient();
  const [codes, setCodes] = useState<string[]>([]);
  const query = useQuery(factorsQuery);
  const factors = query.data?.data ?? [];
  const left = query.data?.recovery_codes_left ?? 0;
  const refresh = () => void queries.invalidateQueries({ queryKey: factorsQuery.queryKey });
  const added = (recoveryCodes: string[]) => {
    setCodes(recoveryCodes);
    refresh();
    void queries.invalidateQueries({ queryKey: ["logins"] });
  };
  return (
    <Section
      title={text.factors}
      actions={
        <>
          <NewFactor kind="totp" hasFactors={factors.length > 0} onAdded={added} />
          <NewFactor kind="webauthn" hasFactors={factors.length > 0} onAdded={added} />
        </>
      }
    >
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton rows={2} />}
      {query.data && factors.length === 0 && <p>{text.noFactors}</p>}
      {factors.length > 0 && (
        <>
          <Table
            label={text.factors}
            rows={factors}
            keyOf={(row) => row.id}
            columns={[
              { title: text.factorName, cell: ({ name }) => <MarkedText text={name} /> },
              { title: common.description, cell: ({ kind }) => text.factorKinds[kind] },
              { title: common.createdAt, cell: ({ created_at }) => <Time at={created_at} /> },
              {
                title: text.lastUsed,
                cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : text.never),
              },
              {
                title: text.remove,
                cell: ({ id, name }) => (
                  <WithProof
                    label={text.remove}
                    title={text.removeTitle(name)}
                    words={text.removeText}
                    action={async (proof) => {
                      await removeFactor(id, proof);
                      refresh();
                    }}
                  />
                ),
              },
            ]}
          />
          <div className="row">
            <span>{counted(text.codesLeft, left)}</span>
            <WithProof
              label={text.newCodes}
              title={text.newCodes}
              words={text.newCodesText}
              action={async (proof) => {
                setCodes(await newRecoveryCodes(proof));
                refresh();
              }}
            />
          </div>
        </>
      )}
      <RecoveryCodes codes={codes} onClose={() => setCodes([])} />
    </Section>
  );
}

interface WithProofProps {
  label: string;
  title: string;
  words: string;
  action: (proof: ReturnType<typeof proofOf>) => Promise<unknown>;
}

/** A button for what needs the password, or a code, once more. */
function WithProof({ label, title, words, action }: WithProofProps) {
  const [proof, setProof] = useState(NO_PROOF);
  return (
    <FormDialog
      label={label}
      title={title}
      submit={label}
      onOpen={() => setProof(NO_PROOF)}
      action={() => action(proofOf(proof))}
    >
      <p>{words}</p>
      <ProofInput proof={proof} onChange={setProof} hasCodes />
    </FormDialog>
  );
}
