"""The right answers of the queries about rewards and learning, by plain loops: no SQL, no views.

Each takes the tasks and the moment since when (ms), and gives rows as the file prints them; `...` is not compared.
"""

from collections import defaultdict
from itertools import pairwise
from math import sqrt
from statistics import mean, variance

from bench.ledger.traffic import Traffic
from bench.ledger.world import LINES, Reward, Sample, Task, Trajectory
from tests.ledger.plain import Rows, by, percentile, score, short, trajectories, week


def _versions(tasks: list[Task], since: int) -> dict[tuple[str, str, int], list[float]]:
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for t in trajectories(tasks):
        answered = [e.version for e in t.exchanges if e.id >> 80 >= since and e.version is not None]
        reward = score(t, since)
        if answered and reward is not None:
            found[(*LINES[t.line], max(answered))].append(reward)
    return found


def reward_by_version(tasks: list[Task], since: int) -> Rows:
    rows = []
    for key, values in sorted(_versions(tasks, since).items()):
        half = 1.96 * sqrt(variance(values) / len(values)) if len(values) > 1 else None
        interval = (None, None) if half is None else (mean(values) - half, mean(values) + half)
        rows.append((*key, len(values), mean(values), *interval))
    return rows


def regressions(tasks: list[Task], since: int) -> Rows:
    rows = []
    found = {key: values for key, values in _versions(tasks, since).items() if len(values) > 1}
    for (before_key, before), (key, values) in pairwise(sorted(found.items())):
        half = 1.96 * sqrt(variance(values) / len(values) + variance(before) / len(before))
        difference = mean(values) - mean(before)
        if before_key[:2] == key[:2] and difference < -half:
            middle = (before_key[2], mean(values), mean(before), difference, half)
            rows.append((*key, *middle, len(values), len(before)))
    return sorted(rows, key=lambda row: row[6])


def next_step(tasks: list[Task], since: int) -> Rows:
    rows = []
    for task in tasks:
        scored = [r for t in task.members() if (r := t.reward()) is not None]
        if task.state == "open" and (len(scored) == 1 or (scored and min(scored) < max(scored))):
            num = len(task.members())
            rows.append((
                *LINES[task.line], f"{task.id:032x}", task.kind, num, len(scored), num - len(scored),
                mean(scored), sqrt(variance(scored)) if len(scored) > 1 else None, ..., short(task.trajectories[0].prompt, 40),
            ))  # fmt: skip
    return sorted(rows, key=lambda row: row[2])[:50]


def who_rewards_what(tasks: list[Task], since: int) -> Rows:
    counted = {r.id for t in trajectories(tasks) for r in t.counted()}
    events = [(t, r) for t in trajectories(tasks) for r in t.rewards if r.id >> 80 >= since]
    rows = []
    for key, pairs in by(lambda t, r: (LINES[t.line][0], r.source, "", r.metric), events).items():
        values = [r.value for _, r in pairs if r.id in counted and r.value is not None]
        comments = [r.comment for _, r in pairs if r.comment]
        rows.append(
            (*key, len(pairs), len(values), mean(values) if values else None, len(comments), ..., ...)
        )
    return sorted(rows, key=lambda row: (row[0], -row[4], row[1], row[3]))


def _counts(pairs: list[tuple[Trajectory, Reward]]) -> tuple[int, int]:
    return sum((r.value or 0) <= 0 for _, r in pairs), len(pairs)


def unhappy_users(tasks: list[Task], since: int) -> Rows:
    judged = [(t, r) for t in trajectories(tasks) for r in t.counted() if r.id >> 80 >= since]
    rows = []
    for key, pairs in by(lambda t, _: (*LINES[t.line], t.user), judged).items():
        num_down, num = _counts(pairs)
        if num_down:
            rows.append((*key, num_down, num, 100 * num_down / num, ...))
    return sorted(rows, key=lambda row: (-row[3], -round(row[5], 1), row[0], row[1], row[2]))[:20]


def staleness(traffic: Traffic) -> Rows:
    rows = []
    for step in traffic.steps.values():
        used = [s.staleness for _, s in step.samples if s.reason is None]
        num_left_out = len(step.samples) - len(used)
        rows.append((*LINES[step.line], step.version, len(used), mean(used), max(used), num_left_out, ...))
    return sorted(rows, key=lambda row: (row[0], row[1], -row[2]))


def learning_by_version(traffic: Traffic) -> Rows:
    rows = []
    for step in traffic.steps.values():
        samples = [s for _, s in step.samples]
        rewards = {s.trajectory.id: s.reward for s in samples if s.reward is not None}
        used = sum(s.exchange.num_completion_tokens for s in samples if s.reason is None)
        left_out = by(lambda s: s.reason, ((s,) for s in samples if s.reason is not None))
        dropped = {
            reason: sum(s.exchange.num_completion_tokens for (s,) in of) for reason, of in left_out.items()
        }
        mostly = min(dropped, key=lambda reason: (-dropped[reason], reason)) if dropped else None
        reward = mean(rewards.values()) if rewards else None
        known = (*LINES[step.line], step.version, reward, step.version / 10, None)
        rows.append((*known, used, sum(dropped.values()), mostly))
    return sorted(rows, key=lambda row: (row[0], row[1], -row[2]))


def best_and_worst(tasks: list[Task], since: int) -> Rows:
    scored = {t.id: (reward, t) for t in trajectories(tasks) if (reward := score(t, since)) is not None}
    best = sorted(scored, key=lambda id_: (-scored[id_][0], id_))[:5]
    worst = sorted(scored, key=lambda id_: (scored[id_][0], id_))[:5]
    rows = []
    for id_ in sorted([*best, *worst], key=lambda id_: (-scored[id_][0], id_)):
        reward, t = scored[id_]
        which = "best" if id_ in best else "worst"
        rows.append(
            (
                which,
                reward,
                *LINES[t.line],
                f"{id_:032x}",
                short(t.prompt, 20),
                short(t.exchanges[-1].text, 20),
            )
        )
    return rows


def groups_without_signal(tasks: list[Task], since: int) -> Rows:
    found: dict[tuple[str, ...], list[tuple[int, list[float]]]] = defaultdict(list)
    for task in tasks:
        members = [t for t in task.members() if t.id >> 80 >= since]
        scored = [r for t in members if (r := score(t, since)) is not None]
        may_teach = task.state == "trained" or (task.state != "skipped" and len(scored) == 1)
        if members and not may_teach and (len(scored) < 2 or min(scored) == max(scored)):
            why = "one member" if len(members) == 1 and scored else "all alike"
            why = {0: "unscored", 1: "one member" if len(members) == 1 else "one scored"}.get(
                len(scored), why
            )
            found[*LINES[task.line], task.kind, why].append((len(members), scored))
    rows = []
    for key, groups in found.items():
        means = [mean(scored) for _, scored in groups if scored]
        rows.append((*key, len(groups), sum(num for num, _ in groups), mean(means) if means else None))
    return sorted(rows, key=lambda row: (-row[4], *row[:4]))


def reward_coverage(tasks: list[Task], since: int) -> Rows:
    begun = [(t, score(t, since)) for t in trajectories(tasks) if t.id >> 80 >= since]
    begins = {t.id: task.at_ms for task in tasks for t in task.trajectories}
    rows = []
    for key, pairs in by(lambda t, _: (week(begins[t.id]), *LINES[t.line]), begun).items():
        delays = [
            (min(r.at_ms for r in t.counted()) - begins[t.id]) / 60_000
            for t, reward in pairs
            if reward is not None
        ]
        shares = (100 * len(delays) / len(pairs), percentile(delays, 0.5), percentile(delays, 0.95))
        rows.append((*key, len(pairs), len(delays), *shares))
    return sorted(rows, key=lambda row: (row[1], row[2], row[0]))


def failing_prompts(tasks: list[Task], since: int) -> Rows:
    attempts = [
        (t, reward)
        for t in trajectories(tasks)
        if t.id >> 80 >= since and (reward := score(t, since)) is not None
    ]
    rows = []
    for key, pairs in by(lambda t, _: (*LINES[t.line], t.prompt), attempts).items():
        rewards = [reward for _, reward in pairs]
        if len(rewards) >= 3 and max(rewards) <= 0:
            rows.append(
                (
                    *key[:2],
                    short(key[2], 40),
                    len(rewards),
                    mean(rewards),
                    max(f"{t.id:032x}" for t, _ in pairs),
                )
            )
    return sorted(rows, key=lambda row: (-row[3], *row[:3]))[:20]


def compare_policies(tasks: list[Task], since: int) -> Rows:
    rows = []
    for line in (0, 2):
        ours = [t for t in trajectories(tasks) if t.line == line and t.id >> 80 >= since]
        said = [
            e
            for task in tasks
            if task.line == line
            for t in task.trajectories
            for e in t.exchanges
            if e.id >> 80 >= since and not t.is_shadow
        ]
        scored = [reward for t in ours if (reward := score(t, since)) is not None]
        each = (mean(e.num_completion_tokens for e in said), mean(e.total_seconds for e in said))
        half = 1.96 * sqrt(variance(scored) / len(scored))
        rows.append((*LINES[line], len(ours), len(said), *each, len(scored), mean(scored), half))
    return sorted(rows)


def trained_by_version(traffic: Traffic, version: int) -> Rows:
    rows = []
    for step in (step for step in traffic.steps.values() if step.version == version):
        used = [s for _, s in step.samples if s.reason is None]
        rows += [(*LINES[step.line], version, *_sample(s)) for s in used]
    return sorted(rows, key=lambda row: (row[0], row[1], -row[8], row[11]))


def _sample(s: Sample) -> tuple[object, ...]:
    advantage = (s.reward or 0) - s.baseline
    known = (f"{s.trajectory.id:032x}", s.exchange.version, s.reward, s.baseline, "prompt_group", advantage)
    return (*known, s.exchange.num_completion_tokens, short(s.exchange.text, 40), s.exchange.id)
