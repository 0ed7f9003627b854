export const text = {
  device: {
    title: "Log a command line in",
    code: "Code that the terminal shows",
    look: "Continue",
    asks: (email: string) => `A command line requests to log in as ${email}.`,
    codeIs: "Code",
    address: "From address",
    yours: (address: string) => `Your browser connects from ${address}.`,
    program: "Program",
    unknown: "unknown",
    since: "Since",
    warning:
      "Continue only if you started this yourself, and the terminal in front of you shows this code. If someone else " +
      "sent you the code, reject it: they could act as you.",
    allow: "Log the command line in",
    deny: "Reject",
    allowed: "The command line is logged in. You can close this page.",
    denied: "The command line is not logged in. If you did not start this, tell an administrator.",
    other: "Enter another code",
  },
  ssh: {
    title: "Approve an SSH client",
    code: "Code in the address",
    asks: (email: string) => `An SSH client requests to log in as ${email}.`,
    connection: "Connection",
    anyConnection: "any: the client names it later, for example through a jump host",
    user: "As",
    warning:
      "Continue only if you started this yourself, in the terminal in front of you. If someone else sent you here, or " +
      "asks you for the number, reject it: they could act as you.",
    number: "Number in the terminal",
    allow: "Approve SSH client",
    allowed: "The SSH client is logged in. You can close this page.",
    denied: "The SSH client is not logged in. If you did not start this, tell an administrator.",
  },
  app: {
    title: "Open an application",
    incomplete: "This address is not complete. Open the application again, at its own address.",
    asks: (email: string) => `This browser has not opened the application as ${email} before.`,
    connection: "Connection",
    address: "Address",
    open: (name: string) => `Open ${name}`,
    opening: (name: string) => `Opening ${name}…`,
  },
};
