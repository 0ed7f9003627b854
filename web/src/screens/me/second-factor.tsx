import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Navigate, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { FactorRequired, userQuery } from "../../api/account";
import { nextPath } from "../../engines/next";
import { common } from "../../messages/common";
import styles from "../../parts/entrance.module.css";
import { Failure } from "../../parts/notice";
import { Skeleton } from "../../parts/table";
import { text } from "./messages";
import { NewFactor } from "./new-factor";
import { RecoveryCodes } from "./recovery-codes";

/** Where users land whose organisation requires a second factor that they do not have yet: nothing else works. */
export function RequiredFactorScreen() {
  const { next } = useSearch({ from: "/second-factor" });
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [codes, setCodes] = useState<string[]>([]);
  const user = useQuery(userQuery);
  useEffect(() => {
    document.title = `${text.required} · ${common.product}`;
  }, []);
  const goOn = () => {
    queries.clear();
    void navigate({ href: nextPath(next, window.location.origin) });
  };
  const isRequired = user.error instanceof FactorRequired;
  if (user.data === null) return <Navigate to="/login" search={next ? { next } : {}} />;
  if (user.data && codes.length === 0) return <Navigate to="/" />;
  return (
    <main className={styles.login}>
      <h1>
        <img src="/icon.svg" alt="" width="24" height="24" />
        {text.required}
      </h1>
      {user.isPending && <Skeleton rows={2} />}
      {user.error && !isRequired && <Failure error={user.error} onRetry={() => void user.refetch()} />}
      {isRequired && (
        <div className={styles.form}>
          <p>{text.requiredHint}</p>
          <NewFactor kind="totp" hasFactors={false} isJustLoggedIn onAdded={setCodes} />
          <NewFactor kind="webauthn" hasFactors={false} isJustLoggedIn onAdded={setCodes} />
        </div>
      )}
      <RecoveryCodes codes={codes} onClose={goOn} />
    </main>
  );
}
