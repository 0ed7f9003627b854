import { keepPreviousData, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { userQuery } from "../api/account";
import { api, unwrap } from "../api/client";
import { Dialog } from "../parts/dialog";
import { Facts } from "../parts/facts";
import { type Command, Palette } from "../parts/palette";
import { text } from "./messages";
import { PLACES } from "./places";

const MOST = 20; // connections that are offered
const IDENTIFIER = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** Go to a screen, a connection, or a session by its identifier. */
export function CommandPalette({ onClose }: { onClose: () => void }) {
  const { data: user } = useSuspenseQuery(userQuery);
  const navigate = useNavigate();
  const [search, setSearch] = useState("");
  const connections = useQuery({
    queryKey: ["connections", "palette", search],
    placeholderData: keepPreviousData,
    queryFn: () =>
      unwrap(api.GET("/api/connections", { params: { query: { limit: MOST, ...(search && { search }) } } })),
  });
  const places = PLACES.filter((group) => user !== null && group.isFor(user)).flatMap((group) => group.places);
  const commandsFor = (words: string): Command[] => {
    const fits = (title: string) => title.toLowerCase().includes(words.trim().toLowerCase());
    const names = connections.data?.data.map(({ name }) => name) ?? [];
    const session = words.trim();
    return [
      ...(IDENTIFIER.test(session) ? [{ id: `/sessions/${session}`, title: session, kind: text.session }] : []),
      ...places.filter(({ title }) => fits(title)).map(({ to, title }) => ({ id: to, title, kind: text.screen })),
      ...names.filter(fits).map((name) => ({ id: `/connections/${name}`, title: name, kind: text.connection })),
    ];
  };
  const choose = ({ id }: Command) => {
    onClose();
    void navigate({ to: id });
  };
  return (
    <Palette
      title={text.palette}
      label={text.paletteLabel}
      none={text.paletteNone}
      onClose={onClose}
      onType={setSearch}
      commandsFor={commandsFor}
      onChoose={choose}
    />
  );
}

/** The keys of the application. */
export function KeyboardHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={text.keys} isOpen onClose={onClose}>
      <Facts facts={text.keyList.map(([keys, words]) => [words, <kbd key={keys}>{keys}</kbd>])} />
    </Dialog>
  );
}
