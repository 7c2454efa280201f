"""What is offered when a chat outgrows its context."""

from hypothesis import given
from hypothesis import strategies as st

from app.context_budget import (
    SHORTEST_REPLY,
    DropOldest,
    LargerContext,
    ShorterReply,
    choices,
)


def test_nothing_is_offered_where_everything_fits() -> None:
    assert choices([10, 20, 30], system=5, reply=100, context=165, largest=8192) == ()


def test_a_full_context_offers_all_three() -> None:
    assert choices([100, 100, 100, 100, 50], system=20, reply=100, context=500, largest=8192) == (
        DropOldest(turns=1, messages=2, tokens=270),
        ShorterReply(tokens=30),
        LargerContext(tokens=768),
    )


def test_as_few_turns_as_possible_are_dropped_and_the_new_message_never() -> None:
    assert choices([10, 10, 10, 10, 90], reply=10, context=100, largest=0) == (
        DropOldest(turns=2, messages=4, tokens=90),
    )
    assert choices([10, 10, 10, 10, 95], reply=10, context=100, largest=0) == ()
    assert choices([200], reply=10, context=100, largest=512) == (LargerContext(tokens=256),)


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=9),
    st.integers(0, 200),
    st.integers(1, 1000),
    st.integers(64, 2000),
    st.integers(0, 4000),
)
def test_every_choice_makes_it_fit(
    path: list[int], system: int, reply: int, context: int, largest: int
) -> None:
    total = system + sum(path)
    for choice in choices(path, system=system, reply=reply, context=context, largest=largest):
        match choice:
            case DropOldest():
                assert choice.messages == 2 * choice.turns < len(path)
                assert choice.tokens == system + sum(path[choice.messages :])
                assert choice.tokens + reply <= context
            case ShorterReply():
                assert SHORTEST_REPLY <= choice.tokens < reply
                assert total + choice.tokens == context
            case LargerContext():
                assert context < total + reply <= choice.tokens <= largest
