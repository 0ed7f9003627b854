"""Guardrails: deny, hold, mask or warn when a rule matches an operation or an answer (spec 2.5).

Text rules (`guardrail_texts`) match the spelling of a statement, each bind value, and each text of an answer. Comments
do not hide a match (see `sql_comments`), but quoting, dynamic SQL and other spellings of the same operation can.
Statement rules (`statements`) judge what a statement does, as the parser reads it. Row rules count the rows of an
answer (`counting`).
"""
