"""Shadow siblings hold the prompt of their original: whoever erases that erases them."""

import pytest
from sqlalchemy import Connection, text

from ledger.erasure.subject import Subject
from ledger.identifiers import new_id
from ledger.merging import merge, name_merged
from ledger.records import CallRecord
from ledger.vocabulary import ErasureSubject
from tests.ledger.calls import rows
from tests.ledger.test_comparisons import recorded
from tests.ledger.test_erasure import erase

_RUN = text("""
    INSERT INTO sibling_runs (id, project_id, policy_id, trajectory_id, exchange_id, group_id, sibling_ids, state)
    SELECT :id, project_id, policy_id, id, :exchange_id, group_id, ARRAY[CAST(:sibling_id AS uuid)], 'sampling'
    FROM trajectories WHERE id = :trajectory_id
""")


def sampled_beside(connection: Connection, original: CallRecord, sibling: CallRecord) -> None:
    ids = {"trajectory_id": original.attribution.trajectory_id, "exchange_id": original.call_id}
    sibling_id = sibling.attribution.trajectory_id
    connection.execute(_RUN, {"id": new_id(), "sibling_id": sibling_id} | ids)


@pytest.mark.parametrize("name", ["part", "whole"])
def test_siblings_of_what_became_part_of_another_are_erased_with_it(
    connection: Connection, name: str
) -> None:
    whole, part, sibling, alone = recorded(connection, "whole", "part", "sibling", "alone")
    sampled_beside(connection, part, sibling)
    sampled_beside(connection, whole, alone)  # each has a run: two cannot say the same trajectory
    into = {part.attribution.trajectory_id: whole.attribution.trajectory_id}
    [(project_id,)] = rows(connection, "SELECT id FROM projects WHERE name = 'default'")
    name_merged(connection, dict.fromkeys(into, project_id), into)
    merge(connection, into)
    report = erase(connection, Subject(ErasureSubject.TRAJECTORY, name))
    assert (report["num_trajectories"], report["num_exchanges"]) == (3, 4)
    assert rows(connection, "SELECT id FROM exchanges WHERE erased_at IS NULL") == []
