import { createLink } from "@tanstack/react-router";
import { Link as AriaLink, type LinkProps } from "react-aria-components";
import styles from "./button.module.css";

/** A link to another screen that looks like a button: "New guardrail". */
export const LinkButton = createLink(function LinkButton({
  kind = "plain",
  ...props
}: LinkProps & { kind?: "primary" | "plain" }) {
  return <AriaLink {...props} className={`${styles.button} ${styles[kind]} ${styles.link}`} />;
});
