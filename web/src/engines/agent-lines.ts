// What to paste on the machine of a new agent, so that it runs there: the key is all that it needs.

export const PLACES = ["shell", "systemd", "docker", "kubernetes"] as const;
export type AgentPlace = (typeof PLACES)[number];

export interface AgentSetup {
  name: string;
  key: string;
  /** An image with Postern in it; no image is published. */
  image: string;
  /** An agent in an application's container offers the application itself, such as its console. */
  isEmbedded: boolean;
}

const COMMAND = "bin/console"; // stands for the application's own

/** Return the lines for one kind of machine. The key is never an argument, which all users of a machine could read. */
export function agentLines(place: AgentPlace, setup: AgentSetup): string {
  return LINES[place]({ ...setup, name: safeName(setup.name) });
}

/** Return `host:port` of an address, without its scheme. */
export function hostOf(url: string): string {
  return url.replace(/^[a-z+]+:\/\//i, "").replace(/\/.*$/, "");
}

const LINES: Record<AgentPlace, (setup: AgentSetup) => string> = {
  shell: (setup) => `${keyFile(`${setup.name}.key`, setup.key)}
POSTERN_KEY="$(cat ${setup.name}.key)" ${commandOf(setup)}
`,
  systemd: (setup) => `sudo install -d -m 700 /etc/postern
sudo install -m 600 /dev/null /etc/postern/${setup.name}.env
sudo tee /etc/postern/${setup.name}.env > /dev/null << 'END'
POSTERN_KEY=${setup.key}
END
sudo tee /etc/systemd/system/postern-${setup.name}.service > /dev/null << END
[Unit]
Description=Postern agent ${setup.name}
Wants=network-online.target
After=network-online.target

[Service]
EnvironmentFile=/etc/postern/${setup.name}.env
ExecStart=$(command -v postern) ${argumentsOf(setup).join(" ")}
DynamicUser=yes
Restart=always
RestartSec=5
TimeoutStopSec=45
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
END
sudo systemctl daemon-reload
sudo systemctl enable --now postern-${setup.name}
`,
  docker: (setup) => `${keyFile(`${setup.name}.env`, `POSTERN_KEY=${setup.key}`)}
docker run --detach --init --restart unless-stopped --name postern-${setup.name} \\
  --env-file ${setup.name}.env ${setup.image} \\
  ${commandOf(setup)}
`,
  kubernetes: (setup) => `kubectl apply -f - << 'END'
apiVersion: v1
kind: Secret
metadata: {name: postern-${setup.name}}
stringData: {key: "${setup.key}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: postern-${setup.name}}
spec:
  replicas: 1
  selector: {matchLabels: {app: postern-${setup.name}}}
  template:
    metadata: {labels: {app: postern-${setup.name}}}
    spec:
      terminationGracePeriodSeconds: 45
      containers:
        - name: postern
          image: ${setup.image}
          command: ${JSON.stringify(["postern", ...argumentsOf(setup)])}
          env: [{name: POSTERN_KEY, valueFrom: {secretKeyRef: {name: postern-${setup.name}, key: key}}}]
          securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
END
`,
};

function keyFile(file: string, content: string): string {
  return `install -m 600 /dev/null ${file}
cat > ${file} << 'END'
${content}
END`;
}

function argumentsOf({ name, isEmbedded }: AgentSetup): string[] {
  return isEmbedded ? ["run", "--name", name, "--", COMMAND] : ["agent"];
}

function commandOf(setup: AgentSetup): string {
  return ["postern", ...argumentsOf(setup)].join(" ");
}

/** Return a name for files, units and resources: lower-case letters, digits and hyphens. */
function safeName(name: string): string {
  return (
    name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-+|-+$/g, "") || "agent"
  );
}
