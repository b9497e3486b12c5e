"""Learning without groups on real parts: every prompt is asked once, by nobody else, and judged with a thumb."""

from concurrent.futures import ThreadPoolExecutor

from ledger.groups.routes import route_named
from tests.loop.lessons import post_reward
from tests.loop.stack import Stack, wait_for
from tests.loop.test_loop import STEP_SECONDS

NUM_THUMBS = 8


def ask_and_judge(stack: Stack, route: str, thumbs: list[bool]) -> None:
    """One call a thumb, sampled, each with a prompt of its own."""

    def ask(number: int) -> str:
        reply = stack.client().chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": f"{route}: say the number {number}."}],
            max_tokens=4, temperature=1.0, extra_headers={"X-Route": route},
        )  # fmt: skip
        return reply.id

    with ThreadPoolExecutor(NUM_THUMBS) as pool:
        reply_ids = list(pool.map(ask, range(len(thumbs))))
    for reply_id, thumb in zip(reply_ids, thumbs, strict=True):
        post_reward(stack, reply_id, {"reward": thumb})


def samples(stack: Stack, route: str) -> list[tuple[str | None, bool, str | None, str]]:
    """Baseline kind, whether it was used, why not, and how its step ended; of all samples on this route."""
    return stack.rows(
        "SELECT l.baseline_kind, l.is_used, l.reason, l.step_state FROM v1.lineage AS l"
        " JOIN trajectories AS t ON t.id = l.trajectory_id"
        f" WHERE t.route = '{route_named(route)}' AND l.step_finished_at IS NOT NULL ORDER BY l.exchange_id"
    )


def test_lone_thumbs_make_a_version_that_compares_them_with_the_running_baseline(stack: Stack) -> None:
    before = stack.live_version()
    ask_and_judge(stack, "lone", [True, False] * (NUM_THUMBS // 2))
    wait_for(
        lambda: len(samples(stack, "lone")) == NUM_THUMBS, STEP_SECONDS, "every thumb was read by a step"
    )
    assert samples(stack, "lone") == [("running", True, None, "published")] * NUM_THUMBS
    assert stack.live_version() > before


def test_constant_thumbs_make_no_version(stack: Stack) -> None:
    before = stack.live_version()
    ask_and_judge(stack, "constant", [True] * NUM_THUMBS)
    wait_for(lambda: len(samples(stack, "constant")) == NUM_THUMBS, STEP_SECONDS, "a step has read them")
    assert samples(stack, "constant") == [("running", False, "no_variance", "skipped")] * NUM_THUMBS
    assert stack.live_version() == before
