import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { ConnectionIds } from "../../parts/connection-ids";
import { Field, LongField } from "../../parts/field";
import { Page } from "../../parts/page";
import { ResourceEditor } from "../../parts/resource-editor";
import { text } from "./messages";
import { BLANK, draftOfTemplate, type TemplateDraft, templates } from "./template-draft";
import { TemplateItems } from "./template-items";
import { TemplatePreview } from "./template-preview";

export function NewTemplateScreen() {
  return <TemplatePage name={undefined} />;
}

export function TemplateScreen() {
  return <TemplatePage name={useParams({ from: "/shell/integrations/templates/$name" }).name} />;
}

/** What an issue of a session has, and for which connections. */
function TemplatePage({ name }: { name: string | undefined }) {
  const navigate = useNavigate();
  const isAdmin = useUser()?.role === "admin";
  const moved = (to: string | null) =>
    void navigate(
      to === null ? { to: "/integrations/templates" } : { to: "/integrations/templates/$name", params: { name: to } },
    );
  return (
    <Page title={name ?? text.template.newTitle} aside={<Link to="/integrations/templates">{text.template.back}</Link>}>
      <ResourceEditor
        resource={templates}
        verbs={text.template.submit}
        name={name}
        blank={BLANK}
        draftOf={draftOfTemplate}
        nameOf={(template) => template.name}
        onMoved={moved}
        isReadOnly={!isAdmin}
        {...(isAdmin && { beside: (draft: TemplateDraft) => <TemplatePreview draft={draft} /> })}
        deletion={{
          label: text.template.delete,
          title: text.template.deleteTitle(name ?? ""),
          text: text.template.deleteText,
        }}
      >
        {(draft, set) => <TemplateFields draft={draft} set={set} />}
      </ResourceEditor>
    </Page>
  );
}

function TemplateFields({ draft, set }: { draft: TemplateDraft; set: (part: Partial<TemplateDraft>) => void }) {
  return (
    <>
      <Field label={text.templates.name} value={draft.name} onChange={(name) => set({ name })} isRequired />
      <Field
        label={text.templates.project}
        hint={text.template.projectHint}
        value={draft.project_key}
        onChange={(project_key) => set({ project_key })}
        isRequired
      />
      <Field
        label={text.template.requestType}
        hint={text.template.requestTypeHint}
        value={draft.request_type_id}
        onChange={(request_type_id) => set({ request_type_id })}
        isRequired
      />
      <Field
        label={text.template.transition}
        hint={text.template.transitionHint}
        value={draft.issue_transition_name_on_close}
        onChange={(issue_transition_name_on_close) => set({ issue_transition_name_on_close })}
      />
      <LongField
        label={text.template.description}
        hint={text.template.descriptionHint}
        value={draft.description}
        onChange={(description) => set({ description })}
      />
      <ConnectionIds
        label={text.template.connections}
        hint={text.template.connectionsHint}
        value={draft.connection_ids}
        onChange={(connection_ids) => set({ connection_ids })}
      />
      <TemplateItems draft={draft} set={set} />
    </>
  );
}
