"""The language of runbooks: a template, its parameters, and what it becomes with values filled in. Values into
values: where the files come from is in `integrations.git`, who may run them in `services.runbooks`."""
