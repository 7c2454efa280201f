"""Generated JSON Schemas over a small domain, with the documents that can tell them apart."""

from hypothesis import strategies as st

KEYS = ("a", "b", "c")
SCALARS = (None, False, True, 0, 1, 2, 1.5, -3, "", "x", "y", "xy", "long text")
DOCUMENTS = (
    *SCALARS,
    *(
        [],
        [0],
        [1],
        ["x"],
        [0, 0],
        [1, 2],
        ["x", "y"],
        ["x", "x"],
        [None, 1],
        [1, 2, 2],
        [[], {}],
        ["y", 1, "x"],
    ),
    *({}, {"a": 1}, {"a": "x"}, {"b": 1}, {"a": 1, "b": 1}, {"a": "y", "b": "x"}, {"c": None}),
    *({"a": "x", "c": 1}, {"b": 2, "c": "x"}, {"a": 1, "b": 2, "c": 1}, {"a": {"a": 1}}, {"a": [1], "b": {}}),
)

scalars = st.sampled_from(SCALARS)
counts = st.integers(0, 3)
names = st.lists(st.sampled_from(KEYS), max_size=2, unique=True)
kinds = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])

_leaves = st.one_of(
    st.booleans(),
    st.just({}),
    kinds.map(lambda kind: {"type": kind}),
    st.lists(kinds, min_size=1, max_size=3, unique=True).map(lambda found: {"type": found}),
    scalars.map(lambda value: {"const": value}),
    st.lists(scalars, min_size=1, max_size=4, unique_by=repr).map(lambda found: {"enum": found}),
    st.sampled_from(
        ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"]
    ).flatmap(lambda key: counts.map(lambda count: {key: count})),
    st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]).flatmap(
        lambda key: st.integers(-3, 3).map(lambda bound: {key: bound})
    ),
    st.sampled_from([{"pattern": "^x"}, {"pattern": "y$"}, {"multipleOf": 2}]),
    names.map(lambda found: {"required": found}),
    st.sampled_from(KEYS).flatmap(lambda key: names.map(lambda found: {"dependentRequired": {key: found}})),
    st.booleans().map(lambda flag: {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": flag}),
    st.just({"$ref": "#/$defs/other"}),
)


def _around(inner):
    members = st.dictionaries(st.sampled_from(KEYS), inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {},
            optional={
                "type": kinds,
                "properties": members,
                "required": names,
                "additionalProperties": inner,
                "enum": st.lists(scalars, min_size=1, max_size=3, unique_by=repr),
            },
        ),
        members.map(lambda found: {"type": "object", "properties": found}),
        st.fixed_dictionaries({"items": inner}, optional={"prefixItems": several, "maxItems": counts}),
        several.map(lambda found: {"allOf": found}),
        several.map(lambda found: {"anyOf": found}),
        several.map(lambda found: {"oneOf": found}),
        inner.map(lambda part: {"not": part}),
        st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner, "properties": members}),
        st.fixed_dictionaries(
            {"enum": st.lists(scalars, min_size=1, max_size=4, unique_by=repr), "not": inner}
        ),
        st.fixed_dictionaries({"contains": inner}, optional={"maxItems": counts, "minContains": counts}),
        inner.map(lambda part: {"propertyNames": part}),
        st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: {"dependentSchemas": {pair[0]: pair[1]}}),
        st.fixed_dictionaries({"unevaluatedProperties": st.just(False), "properties": members}),
        st.dictionaries(st.sampled_from(["^a", "b$", "c"]), inner, max_size=2).map(
            lambda found: {"patternProperties": found, "additionalProperties": False}
        ),
    )


schemas = st.tuples(st.recursive(_leaves, _around, max_leaves=6), _leaves).map(
    lambda pair: pair[0] if isinstance(pair[0], bool) else {**pair[0], "$defs": {"other": _plain(pair[1])}}
)


def _plain(leaf):
    """Return the leaf, or anything where it would refer to itself."""
    return True if leaf == {"$ref": "#/$defs/other"} else leaf
