"""Fixtures of sft and dpo: the tiny model with a tokenizer beside it, in a directory of its own."""

import shutil
from pathlib import Path

import pytest

from tests.trainer.imitation.tokenizer import save_tokenizer


@pytest.fixture(scope="session")
def tiny_path(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as a model that chats."""
    chatting = tmp_path_factory.mktemp("chatting") / "model"
    shutil.copytree(tiny_path, chatting)
    return save_tokenizer(chatting)
