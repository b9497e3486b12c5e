"""The story of a step: tick -> resume or claim -> build -> update -> save -> publish.

Each phase ends in one transaction that only the lease's holder can commit, so a step that dies anywhere is taken up
where it was and comes to the same result (docs/decisions/0004-training-step.md has the state machine).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from uuid import UUID

import structlog
from sqlalchemy import Connection, Engine

from ledger.policies import Policy, ensure_policy, read_policies
from ledger.rewards.pairs import pair_up
from ledger.vocabulary import StepState
from trainer import build, checkpoint, claim, transitions
from trainer.batch_metrics import batch_metrics, nothing_to_learn
from trainer.checkpoint import Saved
from trainer.claim import Step
from trainer.learned import learn
from trainer.lease import Lease
from trainer.lengths import length_metrics
from trainer.memory import peak_memory_mib
from trainer.model_cache import ModelCache
from trainer.outcome import settled
from trainer.publish import load_and_probe, unload_old_versions
from trainer.scored import ScoredGroups
from trainer.settings import TrainerSettings
from trainer.snapshot import snapshot

logger = structlog.get_logger()
ALL_ERASED = "All that it was built from was erased before it was learned from."


@dataclass(slots=True)
class Trainer:
    """What a worker keeps between ticks."""

    settings: TrainerSettings
    engine: Engine
    models: ModelCache
    owner: str
    should_stop: Callable[[], bool] = lambda: False
    last_policy_id: UUID | None = None  # whose step came last
    scored: dict[UUID, ScoredGroups] = field(default_factory=dict)  # by policy


def tick(trainer: Trainer) -> Step | None:
    """Do what there is to do; the step as it ended, or None if there was nothing. Safe to call at any time."""
    asked_at = monotonic()
    policy, step = resume_or_claim(trainer)
    if step is None:
        return None
    run = _Run(trainer, policy, step, asked_at)
    with settled(trainer.engine, trainer.settings, run.current), run.lease:
        if run.step.state is StepState.CLAIMED:
            build_samples(run)
        if run.step.state in (StepState.BUILT, StepState.UPDATED):
            update_and_save(run)
        if run.step.state is StepState.SAVED:
            publish(run)
    return run.step


def resume_or_claim(trainer: Trainer) -> tuple[Policy, Step | None]:
    """An unfinished step that nobody holds comes before a new one. Each policy has its turn, in a transaction of its own.

    Those who were compared with each other are brought together first.
    """
    policies = learners(trainer)
    with trainer.engine.begin() as connection:
        if pair_up(connection):
            trainer.scored.clear()  # groups were made of what was judged before
    for take in (_resume, _claim):
        for policy in policies:
            with trainer.engine.begin() as connection:
                step = take(connection, policy, trainer)
            if step is not None:
                trainer.last_policy_id = policy.id
                return policy, step
    return policies[0], None


def learners(trainer: Trainer) -> list[Policy]:
    """The policy of this name in every project, if it learns on this base; the one behind the last first, so that no
    project's traffic holds back another's.
    """
    settings = trainer.settings
    with trainer.engine.begin() as connection:
        own = ensure_policy(connection, name=settings.policy, base_model=settings.base_model)
        known = read_policies(connection)
    others = [p for p in known if (p.name, p.base_model) == (own.name, own.base_model) and p.id != own.id]
    policies = [own, *others]
    turn = next((i for i, policy in enumerate(policies) if policy.id == trainer.last_policy_id), -1) + 1
    return policies[turn:] + policies[:turn]


def _resume(connection: Connection, policy: Policy, trainer: Trainer) -> Step | None:
    step = claim.resume(connection, policy, trainer.settings, trainer.owner)
    if step is None:
        return None
    facts = {"policy": policy.line, "step_id": str(step.id), "version": step.version}
    if step.attempt > trainer.settings.step_attempts:
        reason = f"The worker died in {step.attempt - 1} attempts to make version {step.version}."
        transitions.to_failed(connection, step, reason)
        logger.error("step_failed", **facts, reason=reason)
        return None
    logger.info("step_resumed", **facts, attempt=step.attempt)
    return step


def _claim(connection: Connection, policy: Policy, trainer: Trainer) -> Step | None:
    scored = trainer.scored.setdefault(policy.id, ScoredGroups())
    step = claim.claim(connection, policy, trainer.settings, trainer.owner, scored)
    if step is not None:
        logger.info("step_claimed", policy=policy.line, step_id=str(step.id), version=step.version)
    return step


class _Run:
    """One attempt at one step: the step as it now is, under which lease and settings."""

    def __init__(self, trainer: Trainer, policy: Policy, step: Step, asked_at: float) -> None:
        self.trainer = trainer
        self.policy = policy
        self.step = step
        self.settings = trainer.settings.with_learning(step.settings)
        self.lease = Lease(step, trainer.settings, trainer.should_stop, asked_at)
        self.began_at = monotonic()
        self.seconds_claim = round(self.began_at - asked_at, 3)

    def current(self) -> Step:
        return self.step

    def seconds(self) -> float:
        """Since the phase before ended."""
        began_at, self.began_at = self.began_at, monotonic()
        return round(self.began_at - began_at, 3)

    def reached(self, state: StepState, **facts: object) -> None:
        self.step = replace(self.step, state=state)
        event = f"step_{state}"
        logger.info(event, step_id=str(self.step.id), version=self.step.version, **facts)


def build_samples(run: _Run) -> None:
    """Claimed -> built, or skipped where nothing can be learned. What comes after the snapshot was not read by this step."""
    with snapshot(run.trainer.engine) as connection:
        batch = build.read_batch(connection, run.step, run.settings)
    with run.trainer.engine.begin() as connection:
        build.write_batch(connection, run.step, batch, run.settings)
        metrics = batch_metrics(batch) | {"seconds_claim": run.seconds_claim, "seconds_build": run.seconds()}
        if metrics["num_used_exchanges"]:
            transitions.move(connection, run.step, StepState.BUILT, [StepState.CLAIMED], metrics=metrics)
            state, reason = StepState.BUILT, None
        else:
            state, reason = StepState.SKIPPED, nothing_to_learn(batch)
            transitions.to_skipped(connection, run.step, metrics, reason)
    run.reached(state, reason=reason, **metrics)


def update_and_save(run: _Run) -> None:
    """Built -> updated -> saved. What an earlier attempt has saved is adopted, not made again."""
    saved = checkpoint.find_saved(run.settings, run.policy.line, run.step) or _update(run)
    if saved is None:
        return
    run.lease.check()
    with run.trainer.engine.begin() as connection:
        metrics = {"seconds_save": run.seconds()}
        transitions.to_saved(connection, run.step, saved.name, saved.sha256, metrics)
    run.reached(StepState.SAVED, adapter_sha256=saved.sha256)


def _update(run: _Run) -> Saved | None:
    """None where all that it was built from has been erased meanwhile: then it is skipped."""
    settings, step = run.settings, run.step
    with run.trainer.engine.begin() as connection:
        samples = build.read_samples(connection, step)
        if not samples:
            transitions.to_skipped_as_erased(connection, step, ALL_ERASED)
            run.reached(StepState.SKIPPED, reason=ALL_ERASED)
            return None
    model = run.trainer.models.get(settings)
    parent = checkpoint.read_parent(settings, run.policy.line, step.parent_version)
    seconds_load = run.seconds()
    learned = learn(model, parent, samples, settings, run.lease.check)
    metrics = (
        length_metrics(samples)
        | learned.metrics
        | {
            "seconds_load": seconds_load,
            "seconds_update": run.seconds(),
            "peak_memory_mib": peak_memory_mib(),
        }
    )
    with run.trainer.engine.begin() as connection:
        transitions.to_updated(connection, step, metrics)
    run.reached(StepState.UPDATED, **metrics)
    run.lease.check()
    with run.trainer.engine.begin() as connection:
        transitions.hold(connection, step)
        return checkpoint.save(settings, run.policy.line, step, learned)


def publish(run: _Run) -> None:
    """Saved -> published: live moves only after every replica has confirmed the version."""
    saved = checkpoint.read_saved(run.settings, run.policy.line, run.step.version)
    difference = load_and_probe(run.trainer.settings, saved, run.lease.check)
    run.lease.check()
    metrics = {"seconds_publish": run.seconds(), "probe_difference": difference}
    with run.trainer.engine.begin() as connection:
        transitions.to_published(connection, run.step, metrics)
    run.reached(StepState.PUBLISHED, **metrics)
    unload_old_versions(run.trainer.settings, run.policy.line, run.step.version)
