"""What the process that holds LiteLLM may know: providers' keys, and nothing of ours (B125)."""

from pathlib import Path

from trainer.judge.environment import FORCED, child_environment

ROOT = Path("/root-of-the-package")


def test_nothing_of_ours_is_in_it() -> None:
    ours = {
        "DATABASE_URL": "postgresql://me:hunter2@host/x",
        "DATABASE_URL_FILE": "/run/secrets/url",
        "REDIS_URL": "redis://:hunter2@host",
        "PGPASSWORD": "hunter2",
        "SLIPSTREAM_JUDGE_API_KEY": "hunter2",
        "SLIPSTREAM_BOOTSTRAP_KEY": "hunter2",
        "LITELLM_LOG": "DEBUG",
        "OPENAI_BASE_URL": "http://this-very-proxy/v1",
        "OPENAI_API_BASE": "http://this-very-proxy/v1",
    }
    assert child_environment(ours, ROOT) == {**FORCED, "PYTHONPATH": str(ROOT)}


def test_providers_keys_are_in_it_also_from_files(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-other\n")
    ours = {"OPENAI_API_KEY": "sk-real", "GROQ_API_KEY_FILE": str(tmp_path / "key"), "HOME": "/home/me"}
    found = child_environment(ours, ROOT)
    assert (found["OPENAI_API_KEY"], found["GROQ_API_KEY"], found["HOME"]) == (
        "sk-real",
        "sk-other",
        "/home/me",
    )


def test_a_key_of_slipstream_is_never_sent_to_a_provider(tmp_path: Path) -> None:
    """A shell whose OPENAI_API_KEY opens this proxy, and a judge at OpenAI's own address."""
    (tmp_path / "key").write_text("sk-slip-fromafile")
    ours = {"OPENAI_API_KEY": "sk-slip-1234567890", "ANTHROPIC_API_KEY_FILE": str(tmp_path / "key")}
    assert child_environment(ours, ROOT).keys() & {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"} == set()
