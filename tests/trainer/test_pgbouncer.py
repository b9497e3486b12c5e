"""Claims, leases and whole steps behind PgBouncer in transaction mode: the same tests, asked through it."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from ledger.database import database_address
from tests.conftest import drop_database, new_database
from tests.pgbouncer import pooled_url
from tests.trainer import test_claim, test_step


@pytest.fixture
def database_url(administrator: Connection, template_url: str, pgbouncer_port: int) -> Iterator[str]:
    url = new_database(administrator, str(database_address(template_url).database))
    yield pooled_url(url, pgbouncer_port)
    drop_database(administrator, url)


test_claims = test_claim.test_i6_concurrent_claims_never_share_a_group_and_make_one_step
test_take_over = test_claim.test_a_lease_that_ran_out_is_taken_over_with_a_higher_token
test_fencing = test_claim.test_whoever_was_fenced_out_cannot_write_anything
test_heartbeat = test_claim.test_the_heartbeat_extends_the_lease_and_stops_the_work_when_fenced_out
test_row_locks = test_claim.test_claims_that_skip_the_policy_lock_still_never_share_a_group
test_whole_step = test_step.test_a_tick_turns_scored_groups_into_a_live_version
