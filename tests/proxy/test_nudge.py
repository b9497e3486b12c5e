"""Nudges are hints, and few: many groups that are complete at once cost the broker two."""

import asyncio

import pytest

from proxy.management.nudge import Nudge
from proxy.metrics import Metrics


class CountingNudge(Nudge):
    num_published = 0

    def _publish(self) -> None:
        self.num_published += 1


@pytest.mark.parametrize(("num_sent", "num_published"), [(0, 0), (1, 1), (100, 2)])
async def test_of_many_nudges_the_first_goes_and_one_for_all_the_others(
    num_sent: int, num_published: int
) -> None:
    nudge = CountingNudge("redis://127.0.0.1:1/0", Metrics())
    for _ in range(num_sent):
        nudge.send()
        await asyncio.sleep(0)
    await nudge.drain()
    assert nudge.num_published == num_published
