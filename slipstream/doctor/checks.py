"""The checks in the order in which things depend on each other."""

from collections.abc import Iterator

from slipstream.doctor.finding import Finding
from slipstream.doctor.machine import check_disk, check_packages, check_python, check_spool
from slipstream.doctor.servers import check_broker, check_ledger, check_proxy, check_ticks, check_upstreams
from slipstream.doctor.steps import check_steps
from slipstream.running import find_running
from slipstream.settings import StackSettings


def run_checks(*, is_logprobs_wanted: bool) -> Iterator[Finding]:
    running, settings = find_running(), StackSettings()
    yield check_python()
    yield check_packages()
    yield check_disk(running, settings)
    yield check_spool(running.spool)
    yield check_ledger(running)
    yield check_broker(running)
    yield from check_upstreams(running)
    yield check_proxy(running, settings)
    if running.is_stack or "SLIPSTREAM_WORKER_HEALTH_FILE" in running.variables:
        yield check_ticks(running, settings)
    yield from check_steps(running)
    if is_logprobs_wanted:
        from slipstream.doctor.logprobs import check_logprobs

        yield check_logprobs(running)
