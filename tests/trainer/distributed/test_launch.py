"""What torchrun's processes are started with."""

from pathlib import Path

from tests.trainer.distributed.together import a_step
from trainer.distributed.launch import command, environment
from trainer.distributed.room import Job, Room
from trainer.material import Material
from trainer.parent import Parent


def test_no_address_and_no_secret_of_ours_reaches_a_rank(settings_of, tmp_path) -> None:
    ours = {
        "DATABASE_URL": "postgresql://u:hidden@h/d",
        "DATABASE_URL_FILE": "hidden",
        "PGPASSWORD": "hidden",
        "SLIPSTREAM_JUDGE_API_KEY": "hidden",
        "OPENAI_API_KEY": "hidden",
        "WANDB_API_KEY_FILE": "hidden",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "HF_TOKEN": "for the hub",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }
    told = environment(ours, 2, 0)
    assert "hidden" not in str(told)
    assert (told["HF_TOKEN"], told["CUDA_VISIBLE_DEVICES"]) == ("for the hub", "0,1")
    room = Room(tmp_path)
    settings = settings_of(
        database_url="postgresql://u:hidden@h/d",
        redis_url="redis://:hidden@h",
        adapters_url="ftp://u:hidden@h",
    )
    room.write_job(1, Job(Parent(), Material(()), settings, a_step()))
    assert b"hidden" not in (tmp_path / "job-1" / "told").read_bytes()
    assert room.read_job(1).settings.learning() == settings.learning()


def test_the_ranks_share_the_threads() -> None:
    assert [environment({}, n, 8)["OMP_NUM_THREADS"] for n in (2, 3, 16)] == ["4", "2", "1"]


def test_they_meet_on_this_machine_alone() -> None:
    said = command(Room(Path("/room")), 3)
    assert said[said.index("--local-addr") + 1] == "127.0.0.1"
    assert said[said.index("--rdzv-endpoint") + 1] == "/room/torchrun"
    assert {environment({}, 2, 0)[f"{kind}_SOCKET_IFNAME"] for kind in ("GLOO", "NCCL")} <= {"lo", "lo0"}
