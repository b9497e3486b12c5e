import threading

import psycopg
import pytest
from sqlalchemy import Connection, Engine, text

from ledger.errors import LedgerError
from ledger.policies import LIVE_CHANNEL, adapter_name, ensure_policy, move_live, read_policies


def test_a_policy_is_registered_once_with_its_base_version(connection: Connection) -> None:
    policy = ensure_policy(connection, name="default", base_model="/models/base")
    assert ensure_policy(connection, name="default", base_model="/models/base") == policy
    assert read_policies(connection) == [policy]
    assert connection.execute(text("SELECT version, state FROM policy_versions")).all() == [(0, "base")]
    assert (policy.live_version, policy.reward_min, policy.reward_max) == (0, -1.0, 1.0)


def test_many_processes_register_a_policy_at_once(engine: Engine) -> None:
    found = []

    def register() -> None:
        with engine.begin() as connection:
            found.append(ensure_policy(connection, name="default", base_model="b"))

    threads = [threading.Thread(target=register) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 10
    assert len(set(found)) == 1


def test_another_base_model_under_a_known_name_is_refused(connection: Connection) -> None:
    ensure_policy(connection, name="default", base_model="a")
    with pytest.raises(LedgerError, match="SLIPSTREAM_BASE_MODEL"):
        ensure_policy(connection, name="default", base_model="b")


@pytest.mark.parametrize("name", ["", "a@1", " a", "a\n", "a\x00", "../a", "a/./b", "/a", "a/"])
def test_a_name_that_a_model_name_cannot_hold_is_refused(connection: Connection, name: str) -> None:
    with pytest.raises(LedgerError, match="policy name"):
        ensure_policy(connection, name=name, base_model="b")


def test_moving_live_is_heard_when_it_commits(connection: Connection, database_url: str) -> None:
    """I7, I8: proxies follow the row, and the notice only tells them to look."""
    policy = ensure_policy(connection, name="default", base_model="b")
    connection.commit()
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as listener:
        listener.execute(f"LISTEN {LIVE_CHANNEL}")
        move_live(connection, policy.id, 7)
        assert list(listener.notifies(timeout=0.1)) == []
        connection.commit()
        heard = list(listener.notifies(timeout=2, stop_after=1))
    assert [notice.payload for notice in heard] == [str(policy.id)]
    assert read_policies(connection)[0].live_version == 7


def test_moving_an_unknown_policy_is_an_error(connection: Connection) -> None:
    with pytest.raises(LedgerError, match="no policy"):
        move_live(connection, ensure_policy(connection, name="a", base_model="b").project_id, 1)


def test_adapter_names_carry_the_version() -> None:
    assert adapter_name("default", 12) == "default@12"
