"""Random queries of joins, aliases, nesting, CTEs and expressions."""

from __future__ import annotations

from hypothesis import strategies as st

# Of which every column is cast to text where it is used, so that all of them fit together.
TABLES = {
    "users": ("id", "email", "name", "labels"),
    "orders": ("id", "user_id", "note", "amount"),
    "hr.staff": ("id", "email", "salary"),
    "gone": ("id", "kept"),
    "v_users": ("number", "contact", "shout"),
    "v_nested": ("a", "b"),
    "v_join": ("email", "id", "note"),
    "dogs": ("id", "sound", "owner"),
    "people": ("first", "full_name"),
    '"Mixed Case"': ('"Email Address"', '"select"'),
}
_CALLS = (
    "upper({0})",
    "{0} || {1}",
    "coalesce({0}, {1})",
    "case when {0} > '' then {1} else {0} end",
    "left({0}, 99) || 'x'",
    "json_build_object('k', {0})::text",
    "(array[{0}, {1}])[2]",
    "nullif({0}, {1})",
    "concat({0}, {1})",
    "greatest({0}, {1})",
    "substring({0} from 1 for 50)",
    "row({0}, {1})::text",
    "format('%s/%s', {0}, {1})",
    "either({0}, {1})",
    "shout({0})",
)
_WHOLE = ("row_to_json({0})::text", "({0})::text", "to_jsonb({0}.*)::text", "array[{0}]::text")
# In the order of the values themselves: the server's own, of a UNION's rows for one, shows what else it sorted by.
_SUMMED = (
    "max({0})",
    "string_agg({0}, ',' order by {0})",
    "array_agg({0} order by {0})::text",
    "json_agg({0} order by {0})::text",
    "min({0}) || max({0})",
)


@st.composite
def queries(draw: st.DrawFn, depth: int = 3) -> str:
    text, _ = draw(_query(depth))
    return text


@st.composite
def _query(draw: st.DrawFn, depth: int) -> tuple[str, int]:
    """A query of texts and how many columns it has, which are named c1, c2 …"""
    kind = draw(st.sampled_from(["select"] * 6 + ["union", "with", "shadow"])) if depth else "select"
    if kind == "union":
        (left, width), (right, other) = draw(_query(depth - 1)), draw(_query(depth - 1))
        names = ", ".join(f"c{n}" for n in range(1, min(width, other) + 1))
        link = draw(st.sampled_from(["union", "union all"]))
        return f"(select {names} from ({left}) l) {link} (select {names} from ({right}) r)", min(width, other)
    if kind in ("with", "shadow"):
        (inner, width), (outer, other) = draw(_query(depth - 1)), draw(_query(depth - 1))
        name = "users" if kind == "shadow" else "w"
        if kind == "shadow":
            names = ", ".join(f"c{n}" for n in range(1, width + 1))
            return f"with {name} as ({inner}) select {names} from {name}", width
        own = ", ".join(f"w.c{n} as c{n}" for n in range(1, width + 1))
        rest = ", ".join(f"o.c{n} as c{width + n}" for n in range(1, other + 1))
        return f"with {name} as ({inner}) select {own}, {rest} from {name}, ({outer}) o", width + other
    return draw(_select(depth))


@st.composite
def _select(draw: st.DrawFn, depth: int) -> tuple[str, int]:
    elements: list[str] = []
    columns: list[str] = []
    aliases: list[str] = []
    for place in range(draw(st.integers(1, 2))):
        alias = f"{'tuv'[place]}{depth}"
        if depth and draw(st.booleans()):
            inner, width = draw(_query(depth - 1))
            lateral = draw(st.sampled_from(["", "lateral "]))
            elements.append(f"{lateral}({inner}) {alias}")
            columns += [f"{alias}.c{n}" for n in range(1, width + 1)]
        else:
            table = draw(st.sampled_from(sorted(TABLES)))
            elements.append(f"{table} {alias}")
            columns += [f"{alias}.{name}" for name in TABLES[table]]
        aliases.append(alias)
    join = draw(st.sampled_from([", ", " cross join ", " join "]))
    source = join.join(elements) + (" on true" if join == " join " and len(elements) > 1 else "")
    shapes = _CALLS if draw(st.integers(0, 3)) else _SUMMED
    found: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        first, second = (f"{draw(st.sampled_from(columns))}::text" for _ in range(2))
        if shapes is _CALLS and not draw(st.integers(0, 4)):
            found.append(draw(st.sampled_from(_WHOLE)).format(draw(st.sampled_from(aliases))))
        elif shapes is _CALLS and depth and not draw(st.integers(0, 4)):
            found.append(f"(select max(s.c1 || {first}) from ({draw(_query(depth - 1))[0]}) s)")
        else:
            found.append(draw(st.sampled_from(shapes)).format(first, second))
    named = ", ".join(f"({text})::text as c{n}" for n, text in enumerate(found, 1))
    return f"select {named} from {source}", len(found)
