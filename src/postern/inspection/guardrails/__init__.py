"""Guard rails: refuses, holds, masks or remarks upon an operation or an answer that a rule hits (spec 2.5).

Rules about text (`texts`) judge how a statement is spelled, each bind value, and each text of an answer. Comments
cannot hide from them (see `sql_comments`), but quoting, dynamic SQL and other spellings of the same thing can. Rules
about statements (`statements`) judge what a statement does, as a parser reads it; `rows` counts what comes out.
"""
