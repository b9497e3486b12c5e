"""Which groups are judged, whom a person's score keeps out, and what is read of a conversation."""

from typing import Any
from uuid import UUID

from sqlalchemy import Engine, text

from ledger.recording import record_calls
from ledger.records import Attribution, ChoiceRecord
from ledger.rewards.metrics import Metric, declare_metric
from ledger.rewards.posting import post_reward
from ledger.rewards.posts import RewardPost
from ledger.vocabulary import IdentifiedBy
from tests.fakes.judge import FakeJudge, scoring
from tests.ledger.calls import later
from tests.trainer.judge.conftest import MakeJudge
from tests.trainer.judge.talk import TASK, add_answers
from tests.trainer.traffic import call, one, rows
from trainer.judge.group import find_candidates, read_group
from trainer.judge.run import judge_group
from trainer.judge.transcript import joined_turns, read_transcripts

JUDGED = "SELECT trajectory_id, value FROM reward_events WHERE source = 'judge' ORDER BY trajectory_id"


def post(engine: Engine, trajectory_id: UUID, value: float, **changes: Any) -> None:
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(trajectory_id), value=value, **changes))


def candidates(engine: Engine, **wanted: Any) -> list[UUID]:
    with engine.connect() as connection:
        return list(find_candidates(connection, **({"limit": 10} | wanted)))


def do(engine: Engine, sql: str, **values: Any) -> None:
    with engine.begin() as connection:
        connection.execute(text(sql), values)


def test_open_groups_with_members_that_nobody_scored_are_candidates_the_oldest_first(
    engine: Engine, make_judge: MakeJudge
) -> None:
    make_judge()
    first, _ = add_answers(engine, ["a", "b"])
    scored, ids = add_answers(engine, ["a", "b"])
    second, (some, _) = add_answers(engine, ["a", "b"])
    add_answers(engine, ["alone"])
    closed, _ = add_answers(engine, ["a", "b"])
    for id_ in (*ids, some):
        post(engine, id_, 1.0)
    do(engine, "UPDATE groups SET state = 'skipped' WHERE id = :id", id=closed)
    assert candidates(engine) == [first, second]
    assert candidates(engine, limit=1) == [first]
    assert candidates(engine, policy="other") == []
    assert scored not in candidates(engine, policy="default")


def test_the_worker_waits_until_nobody_joined_and_nobody_spoke(engine: Engine, make_judge: MakeJudge) -> None:
    make_judge()
    group_id, _ = add_answers(engine, ["a", "b"])
    assert candidates(engine, wait_seconds=60) == []
    do(engine, "UPDATE groups SET last_member_at = now() - INTERVAL '2 minutes'")
    assert candidates(engine, wait_seconds=60) == []
    do(engine, "UPDATE exchanges SET created_at = now() - INTERVAL '2 minutes'")
    assert candidates(engine, wait_seconds=60) == [group_id]
    do(engine, "UPDATE groups SET size = 3")
    assert candidates(engine, wait_seconds=60) == []
    do(engine, "UPDATE groups SET last_member_at = now() - INTERVAL '2 hours'")
    assert candidates(engine, wait_seconds=60) == [group_id]


def test_the_worker_leaves_a_group_alone_that_failed_twice(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, _ = add_answers(engine, ["a", "b"])
    fake.answers = [scoring(lambda _: "high")]
    judge_group(engine, make_judge(), group_id)
    assert candidates(engine, max_failures=2) == [group_id]
    judge_group(engine, make_judge(), group_id)
    assert candidates(engine, max_failures=2) == []
    assert candidates(engine) == [group_id]


def test_the_worker_looks_at_groups_whose_members_began_in_the_last_days(
    engine: Engine, make_judge: MakeJudge
) -> None:
    make_judge()
    then = later(-4 * 86_400)
    attribution = Attribution(trajectory_id=then, identified_by=IdentifiedBy.NEW)
    group_id, _ = add_answers(engine, ["a", "b"], call_id=then, attribution=attribution)
    assert candidates(engine, days=3) == []
    assert candidates(engine, days=5) == candidates(engine) == [group_id]


def test_groups_that_the_budget_kept_out_come_last(engine: Engine, make_judge: MakeJudge) -> None:
    first, _ = add_answers(engine, ["a", "b"])
    second, _ = add_answers(engine, ["a", "b"])
    judge_group(engine, make_judge(token_budget=0), first)
    assert candidates(engine) == [second, first]


def test_who_was_scored_by_a_person_is_a_scale_and_gets_no_score(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """0.5 in the range -1 to 1 stands at 0.75 of the scale."""
    group_id, (known, new, other) = add_answers(engine, ["known", "new", "other"])
    post(engine, known, 0.5)
    judge_group(engine, make_judge(), group_id)
    assert [row.trajectory_id for row in rows(engine, JUDGED)] == [new, other]
    (asked,) = fake.asked
    assert len(asked.attempts) == 2
    assert '-scale score="0.75">\n{"role": "assistant", "content": "known"}' in asked.text
    scores = one(engine, "SELECT scores FROM judge_runs")
    assert (scores["unscored"], scores["scale"]) == ([str(new), str(other)], [str(known)])


def test_who_was_scored_by_a_person_is_scored_where_that_is_asked_for(
    engine: Engine, make_judge: MakeJudge
) -> None:
    group_id, (known, _) = add_answers(engine, ["known", "new"])
    post(engine, known, 0.5)
    judge_group(engine, make_judge(rescores=True), group_id)
    assert len(rows(engine, JUDGED)) == 2


def test_one_member_beside_a_scored_one_is_enough_and_none_is_nothing(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    group_id, (known, new) = add_answers(engine, ["known", "new"])
    post(engine, known, 0.5)
    judge_group(engine, make_judge(), group_id)
    assert len(fake.asked[0].attempts) == 1
    post(engine, new, -1.0)
    assert judge_group(engine, make_judge(), group_id).reason == "all its members are scored"


def test_a_new_member_is_judged_together_with_those_that_only_a_judge_scored(
    engine: Engine, fake: FakeJudge, make_judge: MakeJudge
) -> None:
    """Scores of two runs are not comparable: all get new ones, and the older ones are superseded."""
    group_id, (first, _) = add_answers(engine, ["good", "bad"])
    judge = make_judge()
    judge_group(engine, judge, group_id)
    _, (late,) = add_answers(engine, ["late"])
    do(engine, "UPDATE trajectories SET group_id = :group WHERE id = :id", group=group_id, id=late)
    assert candidates(engine) == [group_id]
    fake.answers = [scoring(lambda _: 0.5)]
    judge_group(engine, judge, group_id)
    assert len(fake.asked[-1].attempts) == 3
    counted = rows(engine, "SELECT value FROM v1.rewards WHERE is_counted")
    assert [row.value for row in counted] == [0.0, 0.0, 0.0]
    assert one(engine, f"SELECT count(*) FROM reward_events WHERE trajectory_id = '{first}'") == 2


def test_erased_members_are_not_shown(engine: Engine, fake: FakeJudge, make_judge: MakeJudge) -> None:
    group_id, (gone, *_) = add_answers(engine, ["gone", "a", "b"])
    do(engine, "UPDATE trajectories SET erased_at = now() WHERE id = :id", id=gone)
    judge_group(engine, make_judge(), group_id)
    assert "gone" not in fake.asked[0].text
    assert len(rows(engine, JUDGED)) == 2


def test_a_conversation_is_shown_once_with_all_its_answers(engine: Engine, make_judge: MakeJudge) -> None:
    make_judge()
    attribution = Attribution(trajectory_id=call(1, 1).call_id, identified_by=IdentifiedBy.HEADER)
    messages = list(TASK)
    for turn in ("first", "second"):
        answer = {"role": "assistant", "content": turn}
        choice = ChoiceRecord(
            index=0,
            response=answer,
            text=turn,
            completion_ids=[1],
            sampling_logprobs=[-1.0],
            finish_reason="stop",
        )
        record = call(1, 1, messages=list(messages), choices=[choice], attribution=attribution)
        with engine.begin() as connection:
            record_calls(connection, [record])
        messages += [answer, {"role": "user", "content": f"and after {turn}?"}]
    with engine.connect() as connection:
        (said,) = read_transcripts(connection, [attribution.trajectory_id]).values()
    assert said == [*messages[:-1]]


def test_turns_that_do_not_repeat_what_was_said_follow_each_other() -> None:
    a, b = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "finish_reason": "length"}
    c, d = {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}
    plain = {"role": "assistant", "content": "b"}
    assert joined_turns([[a, b], [a, plain, c, d]]) == [a, b, c, d]
    assert joined_turns([[a, b], [c, d]]) == [a, b, c, d]


def test_a_bare_prompt_tools_and_instructions_are_shown_as_messages(
    engine: Engine, make_judge: MakeJudge
) -> None:
    make_judge()
    tools = [{"type": "function", "function": {"name": "add"}}]
    record = call(
        1, 1, messages=None, request={"prompt": "2 + 2 =", "tools": tools, "instructions": "Add."},
        endpoint="/v1/completions",
    )  # fmt: skip
    with engine.begin() as connection:
        record_calls(connection, [record])
        (said,) = read_transcripts(connection, [record.attribution.trajectory_id]).values()
    assert said == [
        {"role": "system", "tools": tools},
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "2 + 2 ="},
        {"role": "assistant", "content": "x"},
    ]


def test_the_group_is_read_with_the_range_of_its_policy(engine: Engine, make_judge: MakeJudge) -> None:
    """0.25 of the range 0 to 10 is 2.5."""
    make_judge()
    group_id, _ = add_answers(engine, ["a", "b"])
    do(engine, "UPDATE policies SET reward_min = 0, reward_max = 10")
    with engine.connect() as connection:
        group = read_group(connection, group_id)
    assert group is not None
    assert group.reward_of(0.25) == 2.5


def test_whom_a_judge_scored_is_not_judged_again_though_the_score_does_not_count(
    engine: Engine, make_judge: MakeJudge
) -> None:
    """Taken back by somebody, or out of a range that was declared later: a person may ask for the group by its id."""
    retracted, (first, _) = add_answers(engine, ["good", "bad"])
    out_of_range, _ = add_answers(engine, ["good", "bad"])
    judge = make_judge()
    for group_id in (retracted, out_of_range):
        judge_group(engine, judge, group_id)
    with engine.begin() as connection:
        post_reward(connection, "default", RewardPost(str(first), is_retraction=True, source="judge"))
        declare_metric(connection, "default", "default", Metric("reward", 5.0, 10.0))
    assert one(engine, "SELECT count(*) FROM v1.rewards WHERE is_counted") == 0
    assert candidates(engine) == []
    assert judge_group(engine, judge, retracted).rewards[first] == 10.0


def test_groups_with_nothing_to_compare_do_not_stand_in_the_way(
    engine: Engine, make_judge: MakeJudge
) -> None:
    """Both members erased, one of two erased, one of two without an answer that can be read."""
    make_judge()
    _, gone = add_answers(engine, ["a", "b"])
    _, (half, _) = add_answers(engine, ["a", "b"])
    _, (failed, _) = add_answers(engine, ["a", "b"])
    good, _ = add_answers(engine, ["a", "b"])
    do(engine, "UPDATE trajectories SET erased_at = now() WHERE id = ANY (:ids)", ids=[*gone, half])
    failing = (
        "UPDATE exchanges SET is_trainable = false, untrainable_reason = 'failed' WHERE trajectory_id = :id"
    )
    do(engine, failing, id=failed)
    assert candidates(engine, limit=1) == candidates(engine) == [good]


def test_a_member_that_cannot_be_read_does_not_have_the_others_judged_again(
    engine: Engine, make_judge: MakeJudge
) -> None:
    group_id, (gone, *_) = add_answers(engine, ["gone", "a", "b"])
    do(engine, "UPDATE trajectories SET erased_at = now() WHERE id = :id", id=gone)
    judge_group(engine, make_judge(), group_id)
    assert candidates(engine) == []
