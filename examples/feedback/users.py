"""What users do with their answers: some give a thumb, up for exactly the number. Pure; everything follows from `rng`.

The control: with shuffled thumbs the same users speak, and as many thumbs are up, but which ones is chance. What such
a run learns, it did not learn from the feedback.
"""

import random
from collections.abc import Sequence


def who_speaks(num_answers: int, share: float, rng: random.Random) -> list[int]:
    """The indices of the answers that get a thumb: `share` of them, rounded, in order."""
    return sorted(rng.sample(range(num_answers), round(share * num_answers)))


def shuffled(thumbs: Sequence[bool], rng: random.Random) -> list[bool]:
    """The same number of ups and downs, on other answers."""
    return rng.sample(list(thumbs), len(thumbs))
