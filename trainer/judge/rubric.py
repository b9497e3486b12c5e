"""What is good: the operator's own words from a file, or these."""

from pathlib import Path

from trainer.judge.errors import JudgeUnusableError

MAX_CHARACTERS = 20_000
DEFAULT_RUBRIC = """\
- What was asked for decides first: an attempt that reaches the goal, completely and correctly, beats every attempt that does not.
- Among attempts that reach it, prefer the one that got there more directly: fewer needless turns, calls and words.
- Among attempts that do not reach it, one that came closer, or that says honestly where it stands, gets more than one that
  pretends or gives up.
- Facts, figures or results of tools that are made up weigh heavier than a poor style.
- Use the whole scale. Attempts that differ a little get scores that differ a little; equal ones get the same score."""


def read_rubric(path: Path | None) -> str:
    """The file's text, else the default. Raises JudgeUnusableError."""
    if path is None:
        return DEFAULT_RUBRIC
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise JudgeUnusableError(f"The rubric {path} cannot be read: {type(error).__name__}.") from error
    if not text or len(text) > MAX_CHARACTERS:
        raise JudgeUnusableError(f"The rubric {path} must have 1 to {MAX_CHARACTERS:,} characters.")
    return text
