"""A worker's process that makes siblings, to be killed: `python -m tests.trainer.siblings.sampler DATABASE VLLM SCORER`."""

import sys

from ledger.database import sync_engine
from ledger.policies import Policy, read_policies
from trainer.judge.settings import JudgeSettings
from trainer.siblings.settings import SiblingSettings
from trainer.siblings.siblings import Siblings, make_siblings

if __name__ == "__main__":
    database_url, vllm_url, scorer_url = sys.argv[1:]
    engine = sync_engine(database_url)

    def policies() -> list[Policy]:
        with engine.connect() as connection:
            return read_policies(connection)

    make_siblings(
        Siblings(
            SiblingSettings(num_siblings=2),
            JudgeSettings(database_url=database_url, scorer_url=scorer_url),
            (vllm_url,),
            engine,
            policies,
            "killed",
        )
    )
