"""The bench of real schemas reads, compiles, walks and reports; measured here on the drafts' metaschemas only."""

from bench.real_schemas import STATUSES, compiled, metaschemas, status, table, walk_costs

from engine.decoding.constraint import Constraint
from engine.fake import FakeVocabulary


def test_a_metaschema_is_walked_mask_by_mask() -> None:
    found = next(schema for schema in metaschemas() if "draft-07" in schema.name)
    result = compiled(found)
    assert result.grammar is not None, result.refusal
    words = FakeVocabulary()
    costs = walk_costs(Constraint(result.grammar, words.tokenizer, words.end_ids), words, seed=1, steps=40)
    assert 10 < len(costs.masks) <= len(costs.looks)
    assert all(seconds > 0 for seconds in (*costs.masks, *costs.looks))


def test_the_report_counts_every_schema_once() -> None:
    schemas = [schema for schema in metaschemas() if "draft" in schema.name][:8]
    report = table(schemas, FakeVocabulary(), seeds=1)
    row = next(line for line in report.splitlines() if line.startswith("| all |")).split("|")
    assert int(row[2]) == len(schemas) == sum(int(count) for count in row[3 : 3 + len(STATUSES)])
    refused = sum(status(compiled(schema)) == "refused" for schema in schemas)
    assert int(row[3 + STATUSES.index("refused")]) == refused
