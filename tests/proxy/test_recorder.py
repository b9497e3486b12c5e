"""The way into the spool: what is wrong with one record is nobody else's fault."""

import asyncio
from pathlib import Path

import pytest

from ledger.errors import SpoolError
from ledger.spool.spool import Spool
from proxy.metrics import Metrics
from proxy.recorder import Recorder
from tests.ledger.calls import a_call


async def test_a_record_that_cannot_be_encoded_fails_alone(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    recorder = Recorder(spool, Metrics(), lambda: None)
    good, bad = a_call(), a_call(request={"tools": object()})
    waiting = [recorder.accept(good), recorder.accept(bad), recorder.finish(bad), recorder.finish(good)]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [type(None), SpoolError, SpoolError, type(None)]
    assert spool.read_batch(10).records == [good]
    await recorder.drain()
    spool.close()


async def test_only_the_calls_that_were_not_accepted_hear_that_they_were_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up in the middle of a batch: who was accepted is served, and ends."""
    spool = Spool.open(tmp_path)
    recorder = Recorder(spool, Metrics(), lambda: None)
    calls = [a_call() for _ in range(3)]
    accept = Spool.accept

    def full_for_the_second(self: Spool, record: object) -> None:
        if record is calls[1]:
            raise SpoolError
        accept(self, record)  # type: ignore[arg-type]

    monkeypatch.setattr(Spool, "accept", full_for_the_second)
    results = await asyncio.gather(*map(recorder.accept, calls), return_exceptions=True)
    assert [result is None for result in results] == [True, False, True]
    await recorder.drain()
    spool.close()
