"""`python -m tests.corpus.reasoning_model SOURCE TARGET`: SmolLM2 whose tokenizer knows `<think>` and `</think>`.

Two of its unused tokens are renamed; the weights are the same files.
"""

import json
import sys
from pathlib import Path

RENAMED = {"<issue_comment>": "<think>", "<issue_closed>": "</think>"}  # ids 9 and 10


def prepare(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        (target / file.name).unlink(missing_ok=True)
        if file.name == "tokenizer.json":
            (target / file.name).write_text(renamed(file.read_text()))
        else:
            (target / file.name).symlink_to(file.resolve())


def renamed(tokenizer: str) -> str:
    whole = json.loads(tokenizer)
    for token in whole["added_tokens"]:
        if token["content"] in RENAMED:
            token["content"], token["special"] = RENAMED[token["content"]], False
    vocabulary = whole["model"]["vocab"]
    whole["model"]["vocab"] = {RENAMED.get(text, text): number for text, number in vocabulary.items()}
    return json.dumps(whole, ensure_ascii=False)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), Path(sys.argv[2]))
