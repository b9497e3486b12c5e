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
from sqlalchemy.exc import InterfaceError, OperationalError

from ledger.policies import adapter_name
from ledger.rewards.pairs import pair_up
from ledger.vocabulary import StepState
from trainer import checkpoint, claim, transitions
from trainer.checkpoint import Saved
from trainer.claim import Step
from trainer.courses import COURSES, learn
from trainer.distributed.ranks_cache import RanksCache
from trainer.learners import Learner, in_turn, read_learners, register
from trainer.lease import Lease
from trainer.lengths import length_metrics
from trainer.memory import peak_memory_mib
from trainer.model_cache import ModelCache
from trainer.new_line import NEW_LINE, check_base
from trainer.outcome import settled
from trainer.policy_settings import trained_settings
from trainer.position import data_position
from trainer.pruning import prune_checkpoints
from trainer.publish import load_and_probe, unload_old_versions
from trainer.randomness import seeded
from trainer.scored import ScoredGroups
from trainer.servable import ServableShapes
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
    servable: ServableShapes = field(default_factory=ServableShapes)
    ranks: RanksCache = field(
        default_factory=RanksCache
    )  # in place of `models`, where several processes learn
    trained: list[TrainerSettings] = field(init=False)  # of each policy

    def __post_init__(self) -> None:
        self.trained = trained_settings(self.settings)


def tick(trainer: Trainer) -> Step | None:
    """Do what there is to do; the step as it ended, or None if there was nothing. Safe to call at any time."""
    asked_at = monotonic()
    learner, step = resume_or_claim(trainer)
    if step is None:
        return None
    run = _Run(trainer, learner, step, asked_at)
    with settled(trainer.engine, run.learner.settings, run.current), run.lease:
        if run.step.state is StepState.CLAIMED:
            build_samples(run)
        if run.step.state in (StepState.BUILT, StepState.UPDATED):
            update_and_save(run)
        if run.step.state is StepState.SAVED:
            publish(run)
    return run.step


def resume_or_claim(trainer: Trainer) -> tuple[Learner, Step | None]:
    """Each policy has its turn, in a transaction of its own: its unfinished step that nobody holds, else a new one.

    Those who were compared with each other are brought together first.
    """
    with trainer.engine.begin() as connection:
        register(connection, trainer.trained)
        learners = read_learners(connection, trainer.trained)
    with trainer.engine.begin() as connection:
        if pair_up(connection):
            trainer.scored.clear()  # groups were made of what was judged before
    broken: Exception | None = None
    for learner in in_turn(learners, trainer.last_policy_id):
        try:
            step = _take(trainer, learner)
        except (OperationalError, InterfaceError):
            raise  # Postgres is away, for all of them
        except Exception as error:  # one policy's trouble holds back no other's
            logger.exception("policy_not_looked_at", policy=learner.policy.line)
            broken = broken or error
            continue
        if step is not None:
            trainer.last_policy_id = learner.policy.id
            return learner, step
    if broken is not None:
        raise broken
    return learners[0], None


def _take(trainer: Trainer, learner: Learner) -> Step | None:
    with trainer.engine.begin() as connection:
        step = _resume(connection, learner, trainer)
    if step is not None or not trainer.servable.allows(trainer.engine, learner):
        return step
    with trainer.engine.begin() as connection:
        return _claim(connection, learner, trainer)


def _resume(connection: Connection, learner: Learner, trainer: Trainer) -> Step | None:
    step = claim.resume(connection, learner.policy, learner.settings, trainer.owner)
    if step is None:
        return None
    facts = {"policy": learner.policy.line, "step_id": str(step.id), "version": step.version}
    if step.attempt > learner.settings.step_attempts:
        reason = f"The worker died in {step.attempt - 1} attempts to make version {step.version}."
        transitions.to_failed(connection, step, reason)
        logger.error("step_failed", **facts, reason=reason)
        return None
    logger.info("step_resumed", **facts, attempt=step.attempt)
    return step


def _claim(connection: Connection, learner: Learner, trainer: Trainer) -> Step | None:
    policy = learner.policy
    scored = trainer.scored.setdefault(policy.id, ScoredGroups())
    step = claim.claim(connection, policy, learner.settings, trainer.owner, scored)
    if step is not None:
        logger.info("step_claimed", policy=policy.line, step_id=str(step.id), version=step.version)
        if new_line := step.metrics.get(NEW_LINE):
            logger.warning("new_line_begun", policy=policy.line, version=step.version, **new_line)
    return step


class _Run:
    """One attempt at one step: the step as it now is, under which lease and settings."""

    def __init__(self, trainer: Trainer, learner: Learner, step: Step, asked_at: float) -> None:
        self.trainer = trainer
        self.learner = learner
        self.policy = learner.policy
        self.step = step
        self.settings = learner.settings.with_learning(step.settings)
        self.lease = Lease(step, learner.settings, trainer.should_stop, asked_at)
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
    course = COURSES[run.step.kind]
    with snapshot(run.trainer.engine) as connection:
        batch = course.read_batch(connection, run.step, run.settings)
    with run.trainer.engine.begin() as connection:
        course.write_batch(connection, run.step, batch, run.settings)
        metrics = course.metrics_of(batch) | {
            "seconds_claim": run.seconds_claim,
            "seconds_build": run.seconds(),
        }
        if metrics["num_used_exchanges"]:
            transitions.move(connection, run.step, StepState.BUILT, [StepState.CLAIMED], metrics=metrics)
            state, reason = StepState.BUILT, None
        else:
            state, reason = StepState.SKIPPED, course.nothing_to_learn(batch)
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
    settings, step, course = run.settings, run.step, COURSES[run.step.kind]
    with run.trainer.engine.begin() as connection:
        material = course.read_material(connection, step, settings)
        if not material.samples:
            transitions.to_skipped_as_erased(connection, step, ALL_ERASED)
            run.reached(StepState.SKIPPED, reason=ALL_ERASED)
            return None
    model = run.trainer.ranks.get(settings) or run.trainer.models.get(settings)
    if step.parent_version:
        check_base(settings.adapters, adapter_name(run.policy.line, step.parent_version), settings.base_model)
    parent = checkpoint.read_parent(settings, run.policy.line, step.parent_version)
    seconds_load = run.seconds()
    with seeded(step.seed, model.device) as randomness:
        learned = learn(model, parent, material, settings, step, run.lease.check)
    metrics = (
        length_metrics(material.samples)
        | {"peak_memory_mib": peak_memory_mib()}  # unless other processes learned, and said theirs
        | learned.metrics
        | {
            "seconds_load": seconds_load,
            "seconds_update": run.seconds(),
            "has_parent_moments": parent.moments is not None,
        }
    )
    with run.trainer.engine.begin() as connection:
        transitions.to_updated(connection, step, metrics)
    run.reached(StepState.UPDATED, **metrics)
    run.lease.check()
    with run.trainer.engine.begin() as connection:
        transitions.hold(connection, step)
        made_from = {"random": randomness.as_state(), "data": data_position(material.samples)}
        return checkpoint.save(settings, run.policy.line, step, learned, made_from)


def publish(run: _Run) -> None:
    """Saved -> published: live moves only after every replica has confirmed the version."""
    saved = checkpoint.read_saved(run.settings, run.policy.line, run.step.version)
    difference = load_and_probe(run.learner.settings, saved, run.lease.check)
    run.lease.check()
    metrics = {"seconds_publish": run.seconds(), "probe_difference": difference}
    with run.trainer.engine.begin() as connection:
        transitions.to_published(connection, run.step, metrics)
    run.reached(StepState.PUBLISHED, **metrics)
    unload_old_versions(run.learner.settings, run.policy.line, run.step.version)
    prune_checkpoints(run.trainer.engine, run.learner.settings, run.policy)
