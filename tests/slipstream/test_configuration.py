"""The settings file: one schema for every process, refused whole where something in it is wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.errors import SettingsError
from proxy.settings import ProxySettings
from slipstream.catalogue import all_settings, processes
from slipstream.configuration import check
from slipstream.settings import StackSettings
from trainer.judge.settings import JudgeSettings
from trainer.policy_settings import trained_settings
from trainer.settings import TrainerSettings

EXAMPLE = Path(__file__).parents[2] / "examples" / "slipstream.toml"
PLACES = """
database_url = "postgresql://me:hunter2@host/db"
redis_url = "redis://host"
base_model = "base"
upstream_urls = ["http://a", "http://b"]
"""
Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in all_settings():
        monkeypatch.delenv(setting.name, raising=False)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    def written(content: str) -> Path:
        path = tmp_path / "slipstream.toml"
        path.write_text(content)
        monkeypatch.setenv("SLIPSTREAM_CONFIG", str(path))
        return path

    return written


def refusal(*classes: type[StackSettings | ProxySettings | TrainerSettings | JudgeSettings]) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        check(*classes)
    return str(refused.value).splitlines()[1:]


def test_the_example_is_read_by_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPSTREAM_CONFIG", str(EXAMPLE))
    check(*processes().values())
    trainer, proxy = TrainerSettings.from_environment(), ProxySettings.from_environment()
    names = [(one.policy, one.lora_rank, one.step_groups) for one in trained_settings(trainer)]
    assert names == [("default", 8, 16), ("support", 8, 8), ("research", 32, 2), ("sql", 8, 16)]
    assert proxy.replica_urls == list(trainer.upstream_urls) == ["http://vllm-1:8000", "http://vllm-2:8000"]
    assert proxy.policy_bases == {one.policy: one.base_model for one in trained_settings(trainer)}
    assert trained_settings(trainer)[3].upstream_urls == ("http://vllm-sql:8000",)


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(f"{PLACES}step_groups = 3\nseed = 4\n[policies.support]\nseed = 5\n")
    monkeypatch.setenv("SLIPSTREAM_SEED", "6")
    default, support = trained_settings(TrainerSettings.from_environment())
    assert (default.step_groups, default.seed, default.step_max_groups) == (3, 6, 512)
    assert (support.step_groups, support.seed) == (3, 5)  # its own table is nearer than what holds for all


def test_the_tables_may_come_from_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    write(f"{PLACES}[policies.support]\nseed = 5\n")
    monkeypatch.setenv("SLIPSTREAM_POLICIES", '{"sales": {"step_groups": 2}}')
    assert [one.policy for one in trained_settings(TrainerSettings.from_environment())] == [
        "default",
        "sales",
    ]
    monkeypatch.setenv("SLIPSTREAM_POLICIES", "{")
    [problem] = refusal(ProxySettings)
    assert problem.startswith("SLIPSTREAM_POLICIES = { (environment): this is no JSON")


def test_everything_that_is_wrong_is_told_at_once_with_place_value_and_remedy(write: Write) -> None:
    write(
        'base_model = "base"\nstep_groups = 0\nstep_grps = 3\nSLIPSTREAM_KL = 1\njudge_votes = 99\n'
        "[policies.support]\nlearning_rat = 1e-4\nlora_rank = 7\nthreads = 4\ntrainer_threads = 4\n"
    )
    assert refusal(TrainerSettings, JudgeSettings) == [
        "slipstream.toml line 3: step_grps is no setting: did you mean step_groups?",
        "slipstream.toml line 4: write kl here; SLIPSTREAM_KL is its name in the environment",
        "DATABASE_URL is not set: set it in the environment, or database_url in the settings file",
        "REDIS_URL is not set: set it in the environment, or redis_url in the settings file",
        "SLIPSTREAM_UPSTREAM_URLS is not set: set it in the environment, or upstream_urls in the settings file",
        "SLIPSTREAM_STEP_GROUPS = 0 (slipstream.toml line 2): it must be greater than or equal to 1",
        "SLIPSTREAM_JUDGE_VOTES = 99 (slipstream.toml line 5): it must be less than or equal to 16",
        "slipstream.toml line 7, [policies.support]: learning_rat is no setting: did you mean learning_rate?",
        "slipstream.toml line 9, [policies.support]: threads is no setting: docs/settings.md lists those that there are",
        (
            "slipstream.toml line 10, [policies.support]: trainer_threads holds for the whole process: "
            "write it above the policies' tables"
        ),
        (
            "slipstream.toml line 8, [policies.support]: lora_rank = 7: "
            "vLLM serves only the ranks 1, 8, 16, 32, 64, 128, 256, 320, 512"
        ),
    ]


def test_a_table_is_looked_at_by_every_process_that_reads_the_file(write: Write) -> None:
    write(f"{PLACES}[policies.support]\nloss = 'adam'\n")
    [problem] = refusal(ProxySettings)
    assert problem.startswith("slipstream.toml line 7, [policies.support]: loss = adam: it must be 'cispo'")


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ('[policies."a@b"]', "'a@b' is not a policy name"),
        ("policies = 3", "it must be a valid dictionary"),
        ("[policies]\nsupport = 3", "it must be a valid dictionary"),
        ('[policies.default]\nbase_model = "x"\nupstream_urls = "http://c"', "the default policy learns on"),
        ('[policies.sql]\nbase_model = "x"', "name them, upstream_urls"),
        ("trained_policies = ['sqll']\n[policies.sql]", "sqll has no table"),
        ("[policies.support]\nstep_groups = 1000", "a step would never have enough groups"),
        (
            "[policy.support]\nstep_groups = 64",
            "SLIPSTREAM_POLICY (slipstream.toml line 6): it must be a valid string",
        ),
    ],
)
def test_tables_that_contradict_something_are_refused(write: Write, tables: str, problem: str) -> None:
    write(f"{PLACES}{tables}\n")
    assert any(problem in line for line in refusal(TrainerSettings))


@pytest.mark.parametrize(
    ("content", "problem"), [("step_groups = \n", "line 1"), ("a = 1\na = 2\n", "line 2"), ("\x00", "line 1")]
)
def test_what_is_no_toml_is_refused_with_its_line(write: Write, content: str, problem: str) -> None:
    path = write(content)
    for settings_class in processes().values():
        with pytest.raises(SettingsError, match="is no TOML") as refused:
            settings_class.from_environment()
        assert str(path) in str(refused.value)
        assert problem in str(refused.value)


@pytest.mark.parametrize("variable", ["SLIPSTREAM_CONFIG", "DATABASE_URL_FILE"])
def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "/nowhere/at/all")
    with pytest.raises(SettingsError, match=f"{variable} names /nowhere/at/all, which cannot be read"):
        StackSettings.from_environment()


def test_a_wrong_value_never_shows_a_secret(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        'judge_base_url = "http://me:hunter2@judge/v1"\nscorer_url = "http://scorer/x?key=hunter2"\n'
        'bootstrap_key = ["hunter2", 3]\ndatabase_url = "postgresql://host/db"\n'
    )
    monkeypatch.setenv("SLIPSTREAM_JUDGE_VOTES", "hunter")
    problems = refusal(JudgeSettings, StackSettings)
    assert len(problems) == 4
    assert not any("hunter2" in problem for problem in problems)
    assert any("SLIPSTREAM_JUDGE_VOTES = hunter (environment)" in problem for problem in problems)
