// Reads the fields of a JSON Schema as people read them.

type Schema = Record<string, unknown>;

export interface SchemaField {
  name: string;
  /** Such as `string`, `date-time or null`, `list of ReviewVoice`. */
  type: string;
  isRequired: boolean;
  description: string;
}

/** Return the fields of the object that a schema has below this property. */
export function fieldsOf(schema: Schema, property: string): SchemaField[] {
  const object = asSchema(asSchema(schema.properties)[property]);
  const required = new Set(asList(object.required));
  return Object.entries(asSchema(object.properties)).map(([name, field]) => ({
    name,
    type: typeOf(asSchema(field)),
    isRequired: required.has(name),
    description: textOf(asSchema(field).description),
  }));
}

function typeOf(schema: Schema): string {
  if (schema.anyOf !== undefined)
    return asList(schema.anyOf)
      .map((kind) => typeOf(asSchema(kind)))
      .join(" or ");
  if (schema.enum !== undefined) return asList(schema.enum).join(" or ");
  if (typeof schema.$ref === "string") return schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1);
  if (schema.type === "array") return `list of ${typeOf(asSchema(schema.items))}`;
  return textOf(schema.format) || textOf(schema.type) || (schema.const === undefined ? "any" : String(schema.const));
}

const asSchema = (value: unknown): Schema => (typeof value === "object" && value !== null ? (value as Schema) : {});
const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
