import type { ReactNode } from "react";
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { common } from "../messages/common";
import { Button } from "./button";
import styles from "./dialog.module.css";

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  /** Whether Escape and a click beside it close it; false for what is shown only once. */
  isDismissable?: boolean;
  children: ReactNode;
}

/** A dialog in front of the page. The keyboard stays within it, and goes back to where it was at its end. */
export function Dialog({ title, isOpen, onClose, isDismissable = true, children }: DialogProps) {
  return (
    <ModalOverlay
      className={styles.overlay ?? ""}
      isOpen={isOpen}
      isDismissable={isDismissable}
      isKeyboardDismissDisabled={!isDismissable}
      onOpenChange={(open) => !open && onClose()}
    >
      <Modal className={styles.modal ?? ""}>
        <AriaDialog className={styles.dialog ?? ""}>
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

interface ShownOnceProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
}

/** Something secret that is shown only now: nothing closes it by accident. */
export function ShownOnce({ title, isOpen, onClose, children }: ShownOnceProps) {
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose} isDismissable={false}>
      <p>{common.shownOnce}</p>
      {children}
      <Button kind="primary" onPress={onClose}>
        {common.haveIt}
      </Button>
    </Dialog>
  );
}
