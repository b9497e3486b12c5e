"""Makes the world: months of traffic, task after task in the order of time, with everything that goes wrong in it.

Steps come with the tasks that they trained: a version's step takes the first groups with signal of the version before.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from bench.ledger.world import DAY_MS, REFUSAL, Exchange, Plan, Reward, Sample, Step, Task, Trajectory

_SOURCES = ("user", "user", "user", "program", "program", "judge")
_EXCHANGES_A_TASK = 3.45
_GROUPS_A_STEP = 48
_UNDECIDED_MS = 3 * DAY_MS  # younger groups are still open
_ROUTES = ("/v1/chat/completions",) * 8 + ("/v1/completions", "/v1/responses")


class Traffic:
    """`tasks()` once, then `steps` holds every step that was made."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._random = plan, Random(plan.seed)
        self._num_ids = 0
        self.steps: dict[tuple[int, int], Step] = {}

    def tasks(self) -> Iterator[Task]:
        plan, num_made, at = self._plan, 0, self._plan.since_ms
        num_expected = max(1, int(plan.num_exchanges / _EXCHANGES_A_TASK))
        while num_made < plan.num_exchanges:
            at = min(at + max(1, plan.num_days * DAY_MS // num_expected), plan.until_ms - 600_000)
            task = self._task(at)
            num_made += sum(len(t.exchanges) for t in task.trajectories)
            yield task

    def _id(self, at_ms: int) -> int:
        self._num_ids += 1
        return at_ms << 80 | 7 << 76 | 2 << 62 | self._num_ids << 16

    def version_at(self, at_ms: int) -> int:
        plan = self._plan
        return (at_ms - plan.since_ms) * (plan.num_versions + 1) // (plan.num_days * DAY_MS + 1)

    def _task(self, at: int) -> Task:
        random = self._random
        line = random.choices((0, 1, 2), (6, 3, 1))[0]
        number = random.randrange(self._plan.num_prompts)
        prompt = f"Task {number}: what does the customer of order {number * 7919 % 100_000} want?"
        group, kind = self._id(at), "prompt"
        if random.random() < 0.15:
            kind, trajectories = "choices", self._choices(at, line, prompt, random.choice((2, 4, 4, 8)))
        else:
            num = random.choice((1, 1, 1, 2, 3))
            trajectories = [self._conversation(at + k * 900, line, prompt) for k in range(num)]
        for trajectory in trajectories:
            trajectory.is_grouped = any(e.reason is None for e in trajectory.exchanges)
            self._judge(trajectory, number)
        trajectories += self._siblings(trajectories)
        key = (
            f"{number:064x}:{at // 3_600_000}:{group:x}"
            if kind == "prompt"
            else f"{trajectories[0].exchanges[0].id:032x}"
        )
        task = Task(group, line, at, kind, key, trajectories)
        self._decide(task)
        return task

    def _user(self) -> str:
        return f"user-{int(self._random.betavariate(1, 3) * self._plan.num_users)}"

    def _choices(self, at: int, line: int, prompt: str, num: int) -> list[Trajectory]:
        trajectory_id, call_id, user = self._id(at), self._id(at), self._user()
        made = []
        for k in range(num):
            trajectory = Trajectory(trajectory_id + k, line, user, prompt, choice_index=k)
            exchange = self._exchange(at, trajectory, 0, 120, _ROUTES[0])
            exchange.id, exchange.choice_index = call_id + k, k
            trajectory.exchanges.append(exchange)
            made.append(trajectory)
        return made

    def _conversation(self, at: int, line: int, prompt: str) -> Trajectory:
        random = self._random
        trajectory = Trajectory(self._id(at), line, self._user(), prompt)
        endpoint, num_tokens, is_external = random.choice(_ROUTES), 120, random.random() < 0.03
        for turn in range(random.choice((1, 1, 1, 2, 3, 5))):
            at += random.randrange(2_000, 60_000) if turn else 0
            before = trajectory.exchanges[-1] if turn else None
            exchange = self._exchange(at, trajectory, turn, num_tokens, endpoint)
            exchange.parent = before.id if before and before.status == "completed" else None
            if is_external:
                exchange.version, exchange.reason = None, "external_model"
            trajectory.exchanges.append(exchange)
            num_tokens += exchange.num_completion_tokens + 40
            if random.random() < 0.01:
                trajectory.exchanges.append(self._retry(exchange, trajectory))
            if exchange.status != "completed" or (exchange.tool_call and random.random() < 0.3):
                break
        return trajectory

    def _siblings(self, trajectories: list[Trajectory]) -> list[Trajectory]:
        """Of some that are alone: the first call once more, sampled by the worker and scored."""
        first = trajectories[0]
        if len(trajectories) > 1 or not first.is_grouped or first.exchanges[0].reason or self._num_ids % 9:
            return []
        at = first.exchanges[-1].at_ms + 20_000
        sibling = Trajectory(
            self._id(at), first.line, first.user, first.prompt, is_grouped=True, is_shadow=True
        )
        call = replace(first.exchanges[0], id=self._id(at), at_ms=at, total_seconds=9.0)
        sibling.exchanges.append(call)
        value = -1.0 if self._num_ids % 2 else 1.0
        score = Reward(
            self._id(at + 5), at + 5, sibling.id, None, "reward", value, "scorer", target=sibling.id
        )
        sibling.rewards.append(score)
        return [sibling]

    def _exchange(
        self, at: int, trajectory: Trajectory, turn: int, num_tokens: int, endpoint: str
    ) -> Exchange:
        random = self._random
        version = max(0, self.version_at(at) - random.choice((0, 0, 0, 0, 0, 1, 2)))
        num = max(1, int(random.gammavariate(2, 20 + version)))
        seconds = round(0.05 + num * 0.02 * random.uniform(0.7, 1.6), 4)
        exchange = Exchange(self._id(at), at, turn, version, endpoint, "completed", num_tokens, num, seconds)
        luck = random.random()
        if luck < 0.02:
            exchange.status = exchange.reason = "cancelled"
        elif luck < 0.035:
            exchange.status = exchange.reason = "failed"
            exchange.error, exchange.num_completion_tokens = (
                random.choice(("upstream_broken", "upstream_timeout")),
                0,
            )
        elif luck < 0.04:
            exchange.status = exchange.reason = "interrupted"
        elif luck < 0.07:
            exchange.reason = "greedy"
        if exchange.status != "completed":
            exchange.finish_reason = None
        elif random.random() < 0.08:
            exchange.tool_call, exchange.finish_reason = f"call_{exchange.id & 0xFFFFFFFFFF:x}", "tool_calls"
        elif random.random() < 0.02 + 0.004 * version:
            exchange.text = REFUSAL
        else:
            exchange.finish_reason = "length" if random.random() < 0.03 else "stop"
            exchange.text = f"{trajectory.prompt[:9]} needs answer {num} of turn {turn}"
        return exchange

    def _retry(self, first: Exchange, trajectory: Trajectory) -> Exchange:
        at = first.at_ms + 1_000
        again = self._exchange(at, trajectory, first.turn, first.num_prompt_tokens, first.endpoint)
        again.num_retries, again.retry_of, again.version = 1, first.id, first.version
        if first.version is None:
            again.reason = "external_model"
        elif first.reason is None:
            again.reason = again.reason or "duplicate_retry"
        return again

    def _judge(self, trajectory: Trajectory, number: int) -> None:
        random, last = self._random, trajectory.exchanges[-1]
        if random.random() > 0.6 or last.status == "interrupted":
            return
        version = trajectory.version() or 0
        chance = 0.0 if number % 97 == 0 else min(0.95, 0.3 + 0.02 * version)
        if trajectory.line == 0 and version == self._plan.bad_version:
            chance /= 2
        for _ in range(random.choice((1, 1, 1, 2))):
            at = min(last.at_ms + int(random.expovariate(1 / 3_600_000)) + 1, self._plan.until_ms)
            self._post(trajectory, at, 1.0 if random.random() < chance else -1.0)
        if random.random() < 0.03:
            self._post(trajectory, last.at_ms + 5, 0.5, metric="politeness")

    def _post(self, trajectory: Trajectory, at: int, value: float, metric: str = "reward") -> None:
        """A judgement is later than the one before it, as ledger.rewards.reading sees to."""
        random, before = self._random, trajectory.rewards[-1:]
        at = max([at, *(r.at_ms + 1 for r in before)])
        source = random.choice(_SOURCES)
        made = Reward(self._id(at), at, trajectory.id, None, metric, value, source, target=trajectory.id)
        if random.random() < 0.1:
            made.comment = random.choice(("wrong order", "too long", "thank you"))
        if random.random() < 0.1:
            made.exchange = trajectory.exchanges[-1].id
        if random.random() < 0.01:
            made.value, made.is_retraction = None, True
        if random.random() < 0.003:
            made.trajectory = made.exchange = None
        trajectory.rewards.append(made)

    def _decide(self, task: Task) -> None:
        """What a step made of the group, unless it is too young for that."""
        members = task.members()
        rewards = [r for t in members if (r := t.reward()) is not None]
        version = self.version_at(task.at_ms)
        if task.at_ms > self._plan.until_ms - _UNDECIDED_MS or not members:
            return
        if len(rewards) < 2:
            task.state, task.reason = "skipped", "group_incomplete" if rewards else "unscored"
        elif min(rewards) == max(rewards):
            task.state, task.reason = "skipped", "no_variance"
        else:
            self._train(task, members, rewards, version)

    def _train(self, task: Task, members: list[Trajectory], rewards: list[float], version: int) -> None:
        if version >= self._plan.num_versions:  # the next step is still to come, and took none of these
            task.state, task.reason = "skipped", "too_stale"
            return
        step = self.steps.get((task.line, version + 1))
        if step is None:
            step = Step(self._id(task.at_ms), task.line, version + 1, self._ends_at(version))
            self.steps[task.line, version + 1] = step
        if step.num_groups >= _GROUPS_A_STEP:
            task.state, task.reason = "skipped", "too_stale"
            return
        step.num_groups += 1
        task.state, task.step = "trained", step
        baseline = sum(rewards) / len(rewards)
        for trajectory in members:
            reward = trajectory.reward()
            for exchange in trajectory.exchanges:
                reason = exchange.reason or ("unscored" if reward is None else None)
                if exchange.version is not None:
                    staleness = version - exchange.version
                    sample = Sample(trajectory, exchange, reward, baseline, staleness, reason)
                    step.samples.append((task.id, sample))

    def _ends_at(self, version: int) -> int:
        plan = self._plan
        return plan.since_ms + (version + 1) * plan.num_days * DAY_MS // (plan.num_versions + 1)
