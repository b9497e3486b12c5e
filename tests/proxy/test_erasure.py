"""DELETE of a user: nothing of them is left in Postgres, nor in any file of a spool, whatever state their calls are in."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from ledger.codec import encode_call
from ledger.keys import create_key
from ledger.spool.spool import Spool
from ledger.vocabulary import Scope
from tests.fakes.vllm import FakeVllm
from tests.ledger.searching import places_of
from tests.ledger.test_erasure import MARK, a_marked_call
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually

USER = f"anna-{MARK}"


def files_with(root: Path, mark: str = MARK) -> list[str]:
    return sorted(str(p) for p in root.rglob("*") if p.is_file() and mark.encode() in p.read_bytes())


@pytest.fixture(autouse=True)
def _sweeps_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.erasure.sweeper._EVERY_SECONDS", 0.1)
    monkeypatch.setattr("proxy.writer._IDLE_SECONDS", 0.1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def chat(proxy: RunningProxy, user: str = USER, **changes: Any) -> Any:
    return proxy.chat(user=user, messages=[{"role": "user", "content": MARK}], **changes)


def test_nothing_of_a_user_is_left_in_postgres_nor_in_the_spool(
    proxy: RunningProxy, engine: Engine, root: Path
) -> None:
    for stream in (False, True):
        assert chat(proxy, stream=stream, headers={"x-trajectory-id": f"run-{MARK}"}).status_code == 200
    chat(proxy, user="bob")
    proxy.exchanges(3)
    assert files_with(root)  # committed, and still lying in the segment
    answer = proxy.client.delete(f"/v1/users/{USER}").json()
    assert (answer["object"], answer["state"], answer["num_exchanges"]) == ("erasure", "finished", 2)
    assert answer["spool"]["num_waiting"] == 0
    rest = proxy.rows("SELECT id FROM exchanges WHERE erased_at IS NULL")
    assert len(rest) == 1
    again = proxy.client.delete("/v1/users/bob").json()
    assert again["num_exchanges"] == 1
    with engine.connect() as connection:
        assert places_of(connection, MARK) == []
    assert files_with(root) == []
    assert chat(proxy).status_code == 200  # the spool goes on
    proxy.exchanges(4)


def test_calls_that_wait_for_postgres_or_still_run_are_erased_as_they_come(
    proxy: RunningProxy, engine: Engine, vllm: FakeVllm, root: Path
) -> None:
    """I4: their skeletons are recorded, each once."""
    vllm.faults.reply_seconds = 4
    running = threading.Thread(target=chat, args=(proxy,))
    running.start()
    eventually(lambda: len(vllm.chats()) == 1)
    vllm.faults.reply_seconds = 0
    answer = proxy.client.delete(f"/v1/users/{USER}").json()
    assert answer["num_exchanges"] == 0
    running.join(20)
    [row] = proxy.exchanges(1)
    assert (row.untrainable_reason, row.status, row.messages) == ("erased", "completed", None)
    with engine.connect() as connection:
        assert places_of(connection, MARK) == []
    eventually(lambda: files_with(root) == [])


def test_orphans_rejected_records_and_damaged_segments_forget_too(
    start_proxy: StartProxy, root: Path
) -> None:
    proxy = start_proxy(adopt_seconds=3600)
    call = a_marked_call()
    spool = Spool.open(root)
    for record in (call, a_marked_call(), a_marked_call()):
        spool.accept(record)
    spool.append([call])
    segment = next(spool.path.glob("*.segment"))
    spool._directory.release()  # as if its process had died
    aside = root / "corrupt" / "1-ab-0000000001.corrupt"
    aside.parent.mkdir(exist_ok=True)
    damaged = bytearray(segment.read_bytes())
    damaged[60] ^= 0xFF
    aside.write_bytes(damaged)
    (root / "rejected").mkdir(exist_ok=True)
    (root / "rejected" / "x.json").write_bytes(encode_call(call))
    assert len(files_with(root)) == 3
    report = proxy.client.delete(f"/v1/users/{USER}").json()
    assert files_with(root) == []
    assert report["spool"]["num_frames"] >= 8
    later = start_proxy()  # adopts the orphan: three calls, none lost
    rows = later.exchanges(3)
    assert {(row.untrainable_reason, row.messages) for row in rows} == {("erased", None)}
    assert later.metric("slipstream_adopted_total") == 3


def test_only_an_administrator_erases_and_only_in_the_own_project(
    proxy: RunningProxy, engine: Engine
) -> None:
    chat(proxy)
    proxy.exchanges()
    with engine.begin() as connection:
        infer = create_key(connection, [Scope.INFER, Scope.REWARD])[0]
        other = create_key(connection, [Scope.ADMIN], project="acme")[0]

    def delete(key: str) -> Any:
        return proxy.client.delete(f"/v1/users/{USER}", headers={"authorization": f"Bearer {key}"})

    listed = {"authorization": f"Bearer {infer}"}
    eventually(lambda: proxy.client.get("/v1/steps", headers=listed).status_code == 403)
    assert delete(infer).json()["error"]["code"] == "missing_scope"
    assert delete(other).json()["num_exchanges"] == 0
    assert len(proxy.rows("SELECT 1 FROM exchanges WHERE erased_at IS NULL")) == 1
    [row] = proxy.rows("SELECT requested_by FROM erasures")
    assert row.requested_by.startswith("key ")


def test_a_trajectory_is_deleted_by_the_id_of_its_reply(proxy: RunningProxy) -> None:
    reply = chat(proxy)
    proxy.exchanges()
    answer = proxy.client.delete(f"/v1/trajectories/{reply.json()['id']}").json()
    assert (answer["subject"], answer["num_exchanges"]) == ("trajectory", 1)
    found = proxy.client.get(f"/v1/trajectories/{reply.headers['x-trajectory-id']}").json()
    assert found["erased_at"]
    assert [turn["messages"] for turn in found["exchanges"]] == [None]
    assert json.dumps(found).count(MARK) == 0


@pytest.mark.parametrize("path", ["/v1/users/", "/v1/users", "/v1/users//"])
def test_nobody_is_erased_by_a_name_that_is_not_there(proxy: RunningProxy, path: str) -> None:
    assert proxy.client.delete(path).status_code in (404, 405)
    assert proxy.rows("SELECT 1 FROM erasures") == []


def test_a_reward_is_not_taken_back_by_erasing_what_it_judges(proxy: RunningProxy) -> None:
    proxy.chat(headers={"x-trajectory-id": "run/reward"})
    assert proxy.client.delete("/v1/trajectories/run/reward").json()["object"] == "reward"
    [row] = proxy.exchanges()
    assert row.erased_at is None


def test_a_name_may_be_any_text(proxy: RunningProxy) -> None:
    """In the body as JSON, in the path URL-encoded."""
    names = {"a/b": "a%2Fb", "\x00": "%00", "ü %": "%C3%BC%20%25", "x" * 3000: "x" * 3000, "7": "7"}
    for user in names:
        assert proxy.chat(user=user).status_code == 200
    proxy.exchanges(len(names))
    for path in names.values():
        assert proxy.client.delete(f"/v1/users/{path}").json()["num_exchanges"] == 1, path
    assert proxy.client.delete("/v1/users/%ED%A0%80").status_code == 200  # no UTF-8: nobody has that name
    assert proxy.client.delete("/v1/trajectories/%00").status_code == 200


def test_every_process_on_this_machine_forgets(start_proxy: StartProxy, root: Path) -> None:
    """Asked at one, the other's spool is empty of the user when the answer comes."""
    asked, other = start_proxy(), start_proxy()
    chat(other)
    other.exchanges()
    assert files_with(root)
    answer = asked.client.delete(f"/v1/users/{USER}").json()
    assert (answer["num_exchanges"], answer["spool"]["num_waiting"]) == (1, 0)
    assert files_with(root) == []
