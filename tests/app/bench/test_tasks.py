"""The tasks of the benches are sound: their shapes compile, and their transcripts are replies that fit."""

import pytest

from app.bench.tasks import GREEDY, Task, TranscriptSampler, load_tasks
from engine.decoding.constraint import Constraint
from engine.decoding.naive import naive
from engine.fake import FakeContext, FakeVocabulary
from grammars.check import check
from grammars.compile import compile_grammar

TASKS = load_tasks()
VOCABULARY = FakeVocabulary()


def test_every_kind_has_several_prompts_that_differ() -> None:
    assert {task.name for task in TASKS} >= {
        "record", "records", "classification", "tool", "prose", "extraction", "edit",
    }  # fmt: skip
    for task in TASKS:
        assert len({turn.prompt for turn in task.turns}) == len(task.turns) >= 2


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_shapes_compile_and_transcripts_fit_them(task: Task) -> None:
    for turn in task.turns:
        if turn.shape is not None:
            compile_grammar(turn.shape)
            if turn.transcript is not None:
                assert check(turn.shape, turn.transcript).fits


@pytest.mark.parametrize(
    "task", [task for task in TASKS if task.turns[0].transcript], ids=lambda task: task.name
)
def test_a_transcript_is_followed_to_its_end_whatever_the_model_says(task: Task) -> None:
    for turn in task.turns:
        assert turn.transcript is not None
        constraint = (
            None
            if turn.shape is None
            else Constraint(compile_grammar(turn.shape), VOCABULARY.tokenizer, VOCABULARY.end_ids)
        )
        sampler = TranscriptSampler(
            GREEDY,
            vocabulary=VOCABULARY,
            transcript=turn.transcript,
            seed=0,
            history=[1, 2, 3],
            processors=[] if constraint is None else [constraint],
        )
        *tokens, finish = naive(
            FakeContext(VOCABULARY.size),
            sampler,
            structure=constraint,
            end_ids=VOCABULARY.end_ids,
            budget=4000,
        )
        assert finish == "stop"
        assert VOCABULARY.text([one.token for one in tokens]) == turn.transcript  # type: ignore[union-attr]


def test_a_task_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="cooking"):
        load_tasks(["cooking"])
