import { useNavigate, useSearch } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { useUser } from "../../app/user";
import { MarkedText } from "../../parts/marked-text";
import { Time } from "../../parts/time";
import { Address } from "./address";
import { CodePage } from "./code-page";
import { text } from "./messages";

type Device = components["schemas"]["DeviceLoginAnswer"];

/** Confirm that a command line without a browser is one's own. */
export function DeviceScreen() {
  const { user_code = "" } = useSearch({ from: "/shell/device" });
  const navigate = useNavigate({ from: "/device" });
  const { email } = useUser();
  return (
    <CodePage<Device>
      title={text.device.title}
      codeLabel={text.device.code}
      code={user_code}
      onCode={(code) => void navigate({ search: code ? { user_code: code } : {} })}
      look={(code) => unwrap(api.GET("/api/devicelogins", { params: { query: { code } } }))}
      decide={({ code }, answer) => unwrap(api.POST("/api/devicelogins/confirm", { body: { code, answer } }))}
      asks={text.device.asks(email)}
      factsOf={(device) => [
        [
          text.device.codeIs,
          <strong key="code" className="mono">
            {device.code}
          </strong>,
        ],
        [text.device.address, <Address key="address" address={device.address} yours={device.your_address} />],
        [text.device.program, <MarkedText key="program" text={device.client || text.device.unknown} />],
        [text.device.since, <Time key="since" at={device.since} />],
      ]}
      warning={text.device.warning}
      allow={text.device.allow}
      outcomes={{ allow: text.device.allowed, deny: text.device.denied }}
    />
  );
}
