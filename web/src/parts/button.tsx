import { Button as AriaButton, type ButtonProps } from "react-aria-components";
import styles from "./button.module.css";

interface Props extends ButtonProps {
  kind?: "primary" | "plain" | "quiet" | "danger";
}

export function Button({ kind = "plain", ...props }: Props) {
  return <AriaButton {...props} className={`${styles.button} ${styles[kind]}`} />;
}
