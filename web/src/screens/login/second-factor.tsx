import { type LoginStep, sendFactor } from "../../api/account";
import { Button } from "../../parts/button";
import { FactorForm } from "../../parts/factor-form";
import { text } from "./messages";

interface Props {
  step: LoginStep;
  onDone: (answer: LoginStep) => void;
  onBack: () => void;
}

/** The second step of a login: a code, a security key, or a recovery code, whichever the account has. */
export function SecondFactor({ step, onDone, onBack }: Props) {
  return (
    <FactorForm
      factors={step.factors ?? []}
      webauthn={step.webauthn}
      send={(kind, proof) => sendFactor(step.ticket ?? "", kind, proof)}
      onDone={onDone}
    >
      <Button kind="quiet" onPress={onBack}>
        {text.factor.back}
      </Button>
    </FactorForm>
  );
}
