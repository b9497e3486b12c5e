"""Whatever happens to processes, in whatever order: after recovery there is a row for each accepted call, and the audit
agrees at every moment (ADR 0010).
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from ledger.records import CallRecord
from tests.ledger.test_audit import Capture

_ROWS = text("SELECT id FROM exchanges WHERE id = ANY (:ids) ORDER BY id")
_DOINGS = st.lists(
    st.sampled_from(["accept", "end", "end", "commit", "commit again later", "die", "die and adopt"]),
    max_size=15,
)


@settings(
    deadline=None,
    max_examples=25,
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # to shrink takes minutes, and a list of 15 is short
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(_DOINGS, st.integers(0, 5))
def test_i4_after_recovery_rows_are_accepted_calls_and_the_audit_never_finds_a_gap(
    engine: Engine, doings: list[str], choice: int
) -> None:
    """I4: "commit again later" is a kill between the commit and the cursor; a new process begins after each death."""
    with TemporaryDirectory() as directory:
        root = Path(directory)
        captures = [Capture(engine, root)]
        accepted: list[CallRecord] = []
        running: list[CallRecord] = []
        for doing in doings:
            current = captures[-1]
            if doing == "accept":
                running += current.accept(2)
                accepted += running[-2:]
            elif doing == "end" and running:
                current.end([running.pop(choice % len(running))])
            elif doing.startswith("commit"):
                current.commit(moves_cursor=doing == "commit")
            elif doing.startswith("die"):
                current.die()
                captures.append(Capture(engine, root))
                running.clear()
                if doing == "die and adopt":
                    captures[-1].adopt()
            assert current.audit().num_lost == 0
        captures[-1].die()
        captures[-1].adopt()
        found = captures[-1].audit()
        captures[-1].session.rest()
    with engine.connect() as connection:
        ids = [row.id for row in connection.execute(_ROWS, {"ids": [call.call_id for call in accepted]})]
    assert ids == sorted(call.call_id for call in accepted)
    assert found.is_whole
    assert sum(hour.num_running + hour.num_waiting for hour in found.hours) == 0
