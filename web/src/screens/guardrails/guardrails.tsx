import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Chip } from "../../parts/chip";
import { Confirm } from "../../parts/confirm";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { AppliesTo, nameColumn, RuleList } from "../../parts/rule-list";
import type { Column } from "../../parts/table";
import { type Guardrail, guardrails } from "./guardrail-data";
import { text } from "./messages";

/** All guardrails, or those that apply to the connection in the address. */
export function GuardrailsScreen() {
  const { connection } = useSearch({ from: "/shell/guardrails" });
  const { is_admin } = useUser();
  return (
    <RuleList
      path="/guardrails"
      resource={guardrails}
      columns={is_admin ? [...COLUMNS, SWITCH] : COLUMNS}
      command={'postern guardrails create "safe writes" --preset unsafe-writes --connection NAME'}
      connection={connection}
      text={text.list}
    />
  );
}

const COLUMNS: Column<Guardrail>[] = [
  nameColumn("/guardrails"),
  { title: common.description, cell: ({ description }) => <MarkedText text={description} /> },
  {
    title: text.list.rules,
    cell: ({ input, output }) =>
      [
        input.rules.length > 0 && counted(text.list.input, input.rules.length),
        output.rules.length > 0 && counted(text.list.output, output.rules.length),
      ]
        .filter(Boolean)
        .join(", ") || common.none,
  },
  { title: text.list.appliesTo, cell: ({ connection_ids }) => <AppliesTo ids={connection_ids} /> },
  { title: text.list.state, cell: (guardrail) => <State guardrail={guardrail} /> },
];

const SWITCH: Column<Guardrail> = { title: text.list.change, cell: (guardrail) => <Switch guardrail={guardrail} /> };

function State({ guardrail }: { guardrail: Guardrail }) {
  if (!guardrail.enabled) return <Chip kind="off">{text.list.off}</Chip>;
  if (guardrail.connection_ids.length === 0) return <Chip kind="held">{text.list.unused}</Chip>;
  return <Chip kind="ok">{text.list.on}</Chip>;
}

function Switch({ guardrail }: { guardrail: Guardrail }) {
  const queries = useQueryClient();
  const refresh = () => queries.invalidateQueries({ queryKey: [guardrails.path] });
  const turn = (enabled: boolean) => guardrails.change(guardrail.id, { enabled });
  const switchOn = useMutation({ mutationFn: () => turn(true), onSuccess: refresh });
  if (guardrail.enabled)
    return (
      <Confirm
        label={text.list.switchOff}
        title={text.list.switchOffTitle(guardrail.name)}
        action={() => turn(false)}
        onDone={() => void refresh()}
      >
        {text.list.switchOffText(counted(common.connections, guardrail.connection_ids.length))}
      </Confirm>
    );
  return (
    <>
      <Button onPress={() => switchOn.mutate()} isDisabled={switchOn.isPending}>
        {text.list.switchOn}
      </Button>
      {switchOn.error && <Failure error={switchOn.error} />}
    </>
  );
}
