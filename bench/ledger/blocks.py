"""Tasks and steps as lines of COPY's text format, in the columns that recording writes."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import fsum
from typing import Any
from uuid import UUID

from bench.ledger.world import Exchange, Plan, Reward, Step, Task, Trajectory, moment

COLUMNS = {
    "groups": "id, project_id, policy_id, kind, key, state, step_id, reason, last_member_at, created_at",
    "trajectories": "id, project_id, policy_id, group_id, identified_by, choice_index, metadata, end_user, created_at,"
    " is_shadow",
    "exchanges": "id, trajectory_id, project_id, policy_id, version, request_id, choice_index, endpoint, is_streamed,"
    " requested_model, answered_model, client_name, status, http_status, error, is_delivered, retry_of, num_retries,"
    " request_sha256, identified_by, parent_exchange_id, num_shared_tokens, num_shared_messages, num_messages,"
    " messages, request, response, completion_text, prompt_ids, completion_ids, logprobs, finish_reason, temperature,"
    " num_prompt_tokens, num_completion_tokens, first_token_seconds, total_seconds, started_at, is_trainable,"
    " untrainable_reason, created_at, is_shadow",
    "reward_events": "id, project_id, target, trajectory_id, exchange_id, metric, value, comment, source,"
    " is_retraction, observed_at, created_at",
    "policy_versions": "policy_id, version, parent_version, state, adapter_path, published_at, created_at",
    "training_steps": "id, policy_id, version, parent_version, state, seed, settings, metrics, created_at, updated_at,"
    " finished_at",
    "step_samples": "step_id, exchange_id, trajectory_id, group_id, reward, baseline, baseline_kind, advantage,"
    " staleness, num_completion_tokens, is_used, reason",
}
_IDS = [f"{n * 7919 % 49_152}" for n in range(4_096)]
_LOGPROBS = [f"-{n * 37 % 1000 / 250:.4f}" for n in range(1_024)]


@dataclass(slots=True)
class Line:
    """A policy as its rows name it."""

    project_id: UUID
    policy_id: UUID
    name: str


@dataclass
class Block:
    """Rows of several tables, as lines of COPY's text format."""

    lines: list[Line]
    rows: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def add(self, table: str, *cells: Any) -> None:
        self.rows[table].append("\t".join([_cell(cell) for cell in cells]))


def _cell(value: Any) -> str:
    if value is None:
        return "\\N"
    if value is True or value is False:
        return "t" if value else "f"
    return str(value)


def _id(number: int | None) -> str | None:
    return None if number is None else f"{number:032x}"


def _at(ms: int) -> str:
    return moment(ms).isoformat()


def add_task(block: Block, task: Task) -> None:
    line, at = block.lines[task.line], _at(task.at_ms)
    members = task.members()
    if members:
        block.add(
            "groups", _id(task.id), line.project_id, line.policy_id, task.kind, task.key, task.state,
            _id(task.step.id if task.step else None), task.reason, at, at,
        )  # fmt: skip
    for trajectory in task.trajectories:
        block.add(
            "trajectories", _id(trajectory.id), line.project_id, line.policy_id,
            _id(task.id) if trajectory.is_grouped else None, "new", trajectory.choice_index,
            '{"team": "orders"}', trajectory.user, at, trajectory.is_shadow,
        )  # fmt: skip
        shared = 0
        for exchange in trajectory.exchanges:
            _add_exchange(block, line, trajectory, exchange, shared if exchange.parent else 0)
            shared = exchange.num_prompt_tokens + exchange.num_completion_tokens
        for reward in trajectory.rewards:
            _add_reward(block, line, reward)


def _add_exchange(block: Block, line: Line, trajectory: Trajectory, e: Exchange, num_shared: int) -> None:
    is_external, at = e.version is None, _at(e.at_ms)
    num_ids = max(0, e.num_prompt_tokens - num_shared)
    message: dict[str, Any] = {"role": "assistant", "content": e.text or None}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": f"{trajectory.prompt} turn {e.turn}" if e.turn else trajectory.prompt}
    ]
    if e.tool_call:
        call = {"id": e.tool_call, "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        message["tool_calls"] = [call]
    if not e.turn:
        messages.insert(0, {"role": "system", "content": _SYSTEM})
    error = {"message": e.error, "type": "server_error", "code": e.error} if e.error else None
    has_ids = not is_external and e.num_completion_tokens
    block.add(
        "exchanges", _id(e.id), _id(trajectory.id), line.project_id, line.policy_id, e.version,
        _id(e.id), e.choice_index, e.endpoint, e.turn % 2 == 0, "openai/gpt-4o" if is_external else "gpt-4o",
        "gpt-4o" if is_external else f"{line.name}@{e.version}", "OpenAI/Python 3.57.0", e.status,
        502 if e.error else 200, _json(error), e.status == "completed", _id(e.retry_of), e.num_retries,
        f"\\\\x{e.retry_of or e.id:064x}", "conversation" if e.turn else "new",
        _id(e.parent), num_shared, 2 * e.turn if num_shared else 0, 2 * e.turn + 1,
        _json(messages), _REQUEST, _json(message), e.text or None,
        None if is_external else f"{{{','.join(_IDS[:num_ids])}}}",
        f"{{{','.join(_IDS[-e.num_completion_tokens:])}}}" if has_ids else None if is_external else "{}",
        f"{{{','.join(_LOGPROBS[-e.num_completion_tokens:])}}}" if has_ids else None if is_external else "{}",
        e.finish_reason, 0 if e.reason == "greedy" else 1, e.num_prompt_tokens, e.num_completion_tokens,
        e.first_token_seconds, e.total_seconds, at, e.reason is None, e.reason, at, trajectory.is_shadow,
    )  # fmt: skip


_SYSTEM = "You are a helpful assistant of a shop. " * 8
_REQUEST = json.dumps(
    {
        "temperature": 1.0,
        "metadata": {"team": "orders"},
        "tools": [{"type": "function", "function": {"name": "look_up"}}],
    }
)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value).replace("\\", "\\\\")


def _add_reward(block: Block, line: Line, r: Reward) -> None:
    at = _at(r.at_ms)
    block.add(
        "reward_events", _id(r.id), line.project_id, UUID(int=r.target), _id(r.trajectory), _id(r.exchange),
        r.metric, r.value, r.comment, r.source, r.is_retraction, at, at,
    )  # fmt: skip


def add_steps(block: Block, plan: Plan, steps: Iterable[Step]) -> None:
    by_version = {(step.line, step.version): step for step in steps}
    for number, line in enumerate(block.lines):
        for version in range(1, plan.num_versions + 1):
            at = _at(plan.since_ms + version * plan.num_days * 86_400_000 // (plan.num_versions + 1))
            block.add(
                "policy_versions",
                line.policy_id,
                version,
                version - 1,
                "published",
                f"{line.name}@{version}",
                at,
                at,
            )
            if step := by_version.get((number, version)):
                _add_step(block, line, step)


def _add_step(block: Block, line: Line, step: Step) -> None:
    at, parent = _at(step.at_ms), step.version - 1
    block.add(
        "training_steps",
        _id(step.id),
        line.policy_id,
        step.version,
        parent,
        "published",
        1,
        "{}",
        json.dumps(_figures(step)),
        at,
        at,
        at,
    )
    for group, s in step.samples:
        advantage = None if s.reward is None else s.reward - s.baseline
        block.add(
            "step_samples", _id(step.id), _id(s.exchange.id), _id(s.trajectory.id), _id(group), s.reward,
            s.baseline, "prompt_group", advantage, s.staleness, s.exchange.num_completion_tokens,
            s.reason is None, s.reason,
        )  # fmt: skip


def _figures(step: Step) -> dict[str, Any]:
    """Some of those that a real step writes."""
    rewards = {s.trajectory.id: s.reward for _, s in step.samples if s.reward is not None}
    dropped: Counter[str] = Counter()
    for _, s in step.samples:
        if s.reason is not None:
            dropped[s.reason] += s.exchange.num_completion_tokens
    return {
        "loss": 0.5,
        "grad_norm": step.version / 10,
        "reward_mean": fsum(rewards.values()) / len(rewards) if rewards else None,
        "tokens_used": sum(s.exchange.num_completion_tokens for _, s in step.samples if s.reason is None),
        "tokens_dropped": dict(dropped),
    }
