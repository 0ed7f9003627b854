import { type ComponentProps, type KeyboardEvent, type ReactNode, useId } from "react";
import { Tabs as AriaTabs, Tab, TabList } from "react-aria-components";
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
  /** What the key Delete does with the selected tab, when that has the keyboard. */
  onDelete?: (id: string) => void;
  /** Buttons behind the tabs. */
  actions?: ReactNode;
  /** What is in a tab. It stays on the page while another tab is selected. */
  children: (tab: Item) => ReactNode;
}

/** Tabs whose content is only in the page, such as open terminals. Where each has an address, use Views.
 *
 * The panels are not React Aria's TabPanel: that looks through its content after each change in it, which doubles the
 * time of a frame while a grid is scrolled. */
export function Tabs<Item extends TabItem>({
  label,
  tabs,
  selected,
  onSelect,
  onDelete,
  actions,
  children,
}: Props<Item>) {
  const base = useId();
  const tabId = (id: string) => `${base}tab-${id}`;
  const panelId = (id: string) => `${base}panel-${id}`;
  const press = (event: KeyboardEvent) => {
    const isOfTab = event.target instanceof HTMLElement && event.target.role === "tab";
    if (event.key === "Delete" && isOfTab) onDelete?.(selected);
  };
  return (
    <div className={styles.tabs}>
      {/* without the panels: whatever is in it is drawn twice, once to find the tabs */}
      <AriaTabs selectedKey={selected} onSelectionChange={(key) => onSelect(String(key))}>
        {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys come from the tabs in it */}
        <div className={styles.bar} onKeyDown={onDelete && press}>
          <TabList aria-label={label} className={styles.list ?? ""} items={tabs}>
            {(tab) => (
              <Tab
                id={tab.id}
                className={styles.tab ?? ""}
                render={(props) => (
                  <div {...(props as ComponentProps<"div">)} id={tabId(tab.id)} aria-controls={panelId(tab.id)} />
                )}
              >
                {tab.title}
              </Tab>
            )}
          </TabList>
          {actions}
        </div>
      </AriaTabs>
      {tabs.map((tab) => (
        <div
          key={tab.id}
          role="tabpanel"
          id={panelId(tab.id)}
          aria-labelledby={tabId(tab.id)}
          hidden={tab.id !== selected}
          className={styles.panel}
        >
          {children(tab)}
        </div>
      ))}
    </div>
  );
}
