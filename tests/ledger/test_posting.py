"""Posts in sets: what one after the other would do, in any mixture; and no two sets wait for each other in a circle."""

import random
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from ledger.direct import DirectConnection
from ledger.errors import LedgerError, RewardConflictError, RewardOutOfRangeError
from ledger.recording import record_calls
from ledger.rewards.posting import Answer, post_rewards
from ledger.rewards.posts import Posting, RewardPost
from tests.ledger.calls import a_call, a_policy, n_call, rows
from tests.ledger.together import run_all

_EVENTS = """
    SELECT e.target, e.trajectory_id, e.exchange_id, e.metric, e.value, e.content, e.comment, e.source, e.is_retraction,
        e.idempotency_id, e.is_final, e.is_whole, r.not_counted_reason
    FROM reward_events AS e JOIN v1.rewards AS r ON r.id = e.id ORDER BY e.id
"""


class World(NamedTuple):
    """Ids that a post can name: of the project "default", but for "theirs"."""

    targets: list[str]


@pytest.fixture
def world(engine: Engine) -> World:
    with engine.begin() as connection:
        for project in ("default", "other"):
            a_policy(connection, project)
        one, several, theirs = (
            a_call(external_id="mine"),
            n_call(3),
            a_call(project="other", external_id="theirs"),
        )
        erased = a_call(external_id="erased")
        record_calls(connection, [one, several, theirs, erased])
        gone = {"id": erased.attribution.trajectory_id}
        connection.execute(text("UPDATE trajectories SET erased_at = now() WHERE id = :id"), gone)
    ids = [one.call_id, several.call_id, several.attribution.trajectory_id, theirs.call_id]
    return World(["mine", "theirs", "erased", "early", "early too", *map(str, ids)])


_POSTS = st.builds(
    dict,
    target=st.integers(0, 8),
    choice=st.sampled_from([None, None, 0, 1, 7]),
    value=st.sampled_from([0.0, 0.5, 1.0, 1.0, 5.0, float("nan"), None]),
    metric=st.sampled_from(["reward", "reward", "politeness", "comment"]),
    source=st.sampled_from(["user", "user", "Anna"]),
    idempotency_id=st.sampled_from([None, None, "a", "b", "c"]),
    comment=st.sampled_from([None, None, "well \x00 done"]),
    content=st.sampled_from([None, None, {"a": [1.5, "\x00"]}]),
    is_retraction=st.booleans(),
    is_final=st.booleans(),
    is_whole=st.booleans(),
)
_POSTINGS = st.lists(
    st.tuples(
        st.sampled_from(["default", "default", "other", "nobody's"]), st.lists(_POSTS, min_size=1, max_size=2)
    ),
    max_size=12,
)


def said(connection: Connection, answers: list[Answer]) -> list[Any]:
    """Events by their place in the order of ids: two runs give different ids."""
    places: dict[object, int] = {
        id_: n for n, (id_,) in enumerate(rows(connection, "SELECT id FROM reward_events ORDER BY id"))
    }
    return [
        (type(answer), str(answer))
        if isinstance(answer, LedgerError)
        else [(places.get(one.event_id), one.status, one.trajectory_id, one.exchange_id) for one in answer]
        for answer in answers
    ]


@settings(
    deadline=None,
    max_examples=60,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=_POSTINGS, before=_POSTINGS)
def test_a_set_ends_as_its_posts_one_after_the_other(
    engine: Engine, world: World, drawn: Any, before: Any
) -> None:
    """I5: duplicates, conflicts, changes, early ones, choices, retractions, several projects, pairs."""

    def postings(some: Any) -> list[Posting]:
        return [
            Posting(
                project, [RewardPost(**{**post, "target": world.targets[post["target"]]}) for post in posts]
            )
            for project, posts in some
        ]

    with engine.connect() as connection:
        post_rewards(connection, postings(before))
        outcomes = []
        for sets in ([[one] for one in postings(drawn)], [postings(drawn)]):
            savepoint = connection.begin_nested()
            answers = [answer for some in sets for answer in post_rewards(connection, some)]
            outcomes.append((said(connection, answers), rows(connection, _EVENTS)))
            savepoint.rollback()
        connection.rollback()
    assert outcomes[0] == outcomes[1]


def test_what_is_refused_stops_no_other(engine: Engine, world: World) -> None:
    with engine.begin() as connection:
        answers = post_rewards(
            connection,
            [
                Posting("default", [RewardPost("mine", value=1.0, idempotency_id="a")]),
                Posting("default", [RewardPost("mine", value=7.0)]),
                Posting("default", [RewardPost("mine", value=0.0, idempotency_id="a")]),
                Posting("nobody's", [RewardPost("mine", value=0.0)]),
                Posting("default", [RewardPost("mine", value=0.5, source="program")]),
            ],
        )
        assert [type(answer) for answer in answers] == [
            list, RewardOutOfRangeError, RewardConflictError, LedgerError, list,
        ]  # fmt: skip
        assert rows(connection, "SELECT value FROM reward_events ORDER BY id") == [(1.0,), (0.5,)]


def test_a_posting_is_written_whole_or_not_at_all(engine: Engine, world: World) -> None:
    """The second half is refused: what the first one said is not there for the posts behind it, either."""
    first = RewardPost("mine", value=1.0, idempotency_id="a")
    with engine.begin() as connection:
        pair = Posting("default", [first, RewardPost("mine", value=7.0, source="program")])
        conflict = Posting("default", [first, RewardPost("mine", value=0.0, idempotency_id="a")])
        answers = post_rewards(connection, [pair, conflict, Posting("default", [first])])
        assert [type(answer) for answer in answers] == [RewardOutOfRangeError, RewardConflictError, list]
        assert rows(connection, "SELECT value FROM reward_events") == [(1.0,)]


def test_sets_in_opposite_orders_do_not_wait_for_each_other_in_a_circle(engine: Engine, world: World) -> None:
    """A deadlock would be an error of one of them."""
    with engine.begin() as connection:
        record_calls(connection, [a_call(external_id=f"x{n}") for n in range(7)])
    chance = random.Random(3)
    posts = [Posting("default", [RewardPost(f"x{n % 7}", value=1.0, source=f"s{n}")]) for n in range(30)]
    posts += [Posting("default", [RewardPost("mine", value=1.0, idempotency_id=f"{n}")]) for n in range(10)]
    posts += [Posting("other", [RewardPost("theirs", value=1.0, source=f"s{n}")]) for n in range(10)]

    def post(some: list[Posting]) -> None:
        with engine.begin() as connection:
            assert not [one for one in post_rewards(connection, some) if isinstance(one, LedgerError)]

    run_all([partial(post, chance.sample(posts, len(posts))) for _ in range(12)])
    with engine.connect() as connection:
        assert rows(connection, "SELECT count(*) FROM reward_events") == [(50,)]


class Counting(DirectConnection):
    num_asked = 0

    def ask(self, *questions: Any) -> Any:
        self.num_asked += 1
        return super().ask(*questions)


def test_a_set_takes_as_many_statements_as_one(engine: Engine, world: World) -> None:
    def num_asked(num: int) -> int:
        with engine.begin() as connection:
            counting = Counting(connection)
            post_rewards(
                counting,
                [
                    Posting("default", [RewardPost("mine", value=1.0, source=f"{num}-{n}")])
                    for n in range(num)
                ],
            )
            return counting.num_asked

    assert num_asked(1) == num_asked(150)
