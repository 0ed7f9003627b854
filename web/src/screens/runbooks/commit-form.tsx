import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { shortCommit } from "../../engines/runbooks";
import { Toggle } from "../../parts/choice";
import { Field, LongField } from "../../parts/field";
import { Form } from "../../parts/form";
import { MarkedText } from "../../parts/marked-text";
import { Notice } from "../../parts/notice";
import { Section } from "../../parts/section";
import { type Repository, repositories } from "./data";
import { text } from "./messages";

const BLANK = { path: "", content: "", commit_message: "", overwrite: false };

/** Commits a file as the user, and pushes it. */
export function CommitForm({ repository: { id, repository } }: { repository: Repository }) {
  const queries = useQueryClient();
  const [fields, setFields] = useState(BLANK);
  const set = (part: Partial<typeof BLANK>) => setFields((before) => ({ ...before, ...part }));
  const commit = useMutation({
    mutationFn: () => {
      const params = { path: { nameOrID: id } };
      return unwrap(api.POST("/api/runbooks/configurations/{nameOrID}/files", { params, body: fields }));
    },
    onSuccess: () => {
      setFields(BLANK);
      void queries.invalidateQueries({ queryKey: ["runbooks"] });
      void queries.invalidateQueries({ queryKey: [repositories.path, "status"] });
    },
  });
  return (
    <Section title={text.repository.commitTitle}>
      <p className="secondary">{text.repository.commitAbout}</p>
      <Form
        submit={text.repository.commit}
        onSubmit={() => commit.mutate()}
        isBusy={commit.isPending}
        error={commit.error}
      >
        <Field
          label={text.repository.path}
          hint={text.repository.pathHint}
          value={fields.path}
          onChange={(path) => set({ path })}
          isRequired
        />
        <LongField
          label={text.repository.content}
          value={fields.content}
          onChange={(content) => set({ content })}
          rows={10}
          isCode
          isRequired
        />
        <Field
          label={text.repository.message}
          value={fields.commit_message}
          onChange={(commit_message) => set({ commit_message })}
        />
        <Toggle
          label={text.repository.overwrite}
          isOn={fields.overwrite}
          onChange={(overwrite) => set({ overwrite })}
        />
      </Form>
      {commit.data && (
        <Notice kind="ok">
          <p>
            <MarkedText text={text.repository.committed(commit.data.path, shortCommit(commit.data.commit_sha))} />
          </p>
          <Link to="/runbooks/run" search={{ repository, file: commit.data.path }}>
            {text.repository.open}
          </Link>
        </Notice>
      )}
    </Section>
  );
}
