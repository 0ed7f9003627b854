import type { ReactNode } from "react";
import { Tabs as AriaTabs, Tab, TabList, TabPanel } from "react-aria-components";
import styles from "./tabs.module.css";

export interface TabItem {
  id: string;
  title: ReactNode;
}

interface Props<Item extends TabItem> {
  label: string;
  tabs: Item[];
  selected: string;
  onSelect: (id: string) => void;
  /** Buttons behind the tabs. */
  actions?: ReactNode;
  /** What is in a tab. It stays on the page while another tab is selected. */
  children: (tab: Item) => ReactNode;
}

/** Tabs whose content is only in the page, such as open terminals. Where each has an address, use Views. */
export function Tabs<Item extends TabItem>({ label, tabs, selected, onSelect, actions, children }: Props<Item>) {
  return (
    <AriaTabs className={styles.tabs ?? ""} selectedKey={selected} onSelectionChange={(key) => onSelect(String(key))}>
      <div className={styles.bar}>
        <TabList aria-label={label} className={styles.list ?? ""} items={tabs}>
          {(tab) => (
            <Tab id={tab.id} className={styles.tab ?? ""}>
              {tab.title}
            </Tab>
          )}
        </TabList>
        {actions}
      </div>
      {tabs.map((tab) => (
        <TabPanel key={tab.id} id={tab.id} shouldForceMount className={styles.panel ?? ""}>
          {children(tab)}
        </TabPanel>
      ))}
    </AriaTabs>
  );
}
