import { type UseQueryOptions, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Choice } from "./choice";
import { Failure } from "./notice";
import { Page } from "./page";
import { Skeleton } from "./table";

const NO_PRESET = "";

interface Preset {
  name: string;
  description: string;
}

interface Text {
  newTitle: string;
  preset: string;
  presetHint: string;
  /** No preset. */
  empty: string;
}

interface Props<Each extends Preset> {
  query: UseQueryOptions<Each[], Error, Each[], string[]>;
  text: Text;
  /** The form, filled in by the preset that the address names; `choice` is the control that chooses another one. */
  children: (preset: Each | undefined, choice: ReactNode) => ReactNode;
}

/** The screen of a new rule, once its presets are there. */
export function WithPreset<Each extends Preset>({ query, text, children }: Props<Each>) {
  const { preset } = useSearch({ strict: false });
  const presets = useQuery(query);
  if (!presets.data)
    return (
      <Page title={text.newTitle}>
        {presets.error ? <Failure error={presets.error} onRetry={() => void presets.refetch()} /> : <Skeleton />}
      </Page>
    );
  const chosen = presets.data.find(({ name }) => name === preset);
  return children(chosen, <PresetChoice presets={presets.data} chosen={chosen} text={text} />);
}

interface ChoiceProps {
  presets: Preset[];
  chosen: Preset | undefined;
  text: Text;
}

/** Choose a preset: it is in the address, and what was typed so far is replaced. */
function PresetChoice({ presets, chosen, text }: ChoiceProps) {
  const navigate = useNavigate();
  return (
    <Choice
      label={text.preset}
      hint={chosen?.description ?? text.presetHint}
      value={chosen?.name ?? NO_PRESET}
      options={[[NO_PRESET, text.empty], ...presets.map(({ name }) => [name, name] as const)]}
      onChange={(name) => void navigate({ to: ".", search: (before) => ({ ...before, preset: name || undefined }) })}
    />
  );
}
