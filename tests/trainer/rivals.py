"""Several workers that look for a step at the same moment."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from trainer.claim import Step
from trainer.step import Trainer, resume_or_claim


def steps_of(trainers: list[Trainer]) -> list[Step]:
    """What they got, all at once; whoever got nothing is left out."""
    barrier = Barrier(len(trainers))

    def compete(trainer: Trainer) -> Step | None:
        barrier.wait()
        return resume_or_claim(trainer)[1]

    with ThreadPoolExecutor(len(trainers)) as pool:
        return [step for step in pool.map(compete, trainers) if step is not None]
