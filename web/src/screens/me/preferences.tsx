import { useChangePreferences, usePreferences, usePreferencesAreKnown } from "../../api/preferences";
import { DENSITIES, type Preferences, THEMES } from "../../engines/preferences";
import { Choice, Toggle } from "../../parts/choice";
import { Failure } from "../../parts/notice";
import { Section } from "../../parts/section";
import styles from "./me.module.css";
import { text } from "./messages";

/** How the application looks and which keys it has, in all of the user's browsers. A choice counts at once. */
export function PreferenceSection() {
  const { theme, density, hasLetterKeys } = usePreferences();
  const isKnown = usePreferencesAreKnown();
  const change = useChangePreferences();
  const set = (part: Partial<Preferences>) => change.mutate(() => part);
  return (
    <Section title={text.preferences}>
      <p className="secondary">{text.preferencesHint}</p>
      <div className={styles.choices}>
        <Choice
          label={text.theme}
          value={theme}
          options={THEMES.map((value) => [value, text.themes[value]] as const)}
          onChange={(value) => set({ theme: value })}
          isDisabled={!isKnown}
        />
        <Choice
          label={text.density}
          value={density}
          options={DENSITIES.map((value) => [value, text.densities[value]] as const)}
          onChange={(value) => set({ density: value })}
          isDisabled={!isKnown}
        />
      </div>
      <Toggle
        label={text.letterKeys}
        hint={text.letterKeysHint}
        isOn={hasLetterKeys}
        onChange={(isOn) => set({ hasLetterKeys: isOn })}
        isDisabled={!isKnown}
      />
      {change.error && <Failure error={change.error} />}
    </Section>
  );
}
