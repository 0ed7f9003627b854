"""Configuration in files: `postern export` and `postern apply`.

yaml_files       reads YAML into nodes with line numbers, and writes it
resource_schema  the kinds of resources that the gateway has, and their fields
documents        what files say about resources, checked against the kinds
secret_sources   secrets by reference: variables, files, and secret stores
gateway_state    what the gateway has now, in the same form
planning         the differences: what `apply` will do
simulation       what changed guardrails would have done to recorded sessions
plan_runner      does it
plan_text        the plan for people and programs
export_files     writes what the gateway has
"""
