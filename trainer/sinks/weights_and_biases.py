"""W&B: one run for each line of versions. Where it is kept, and as whom, W&B's own variables say (WANDB_MODE, WANDB_API_KEY …).

It gets figures and nothing else: no code, host, packages, command line or console, which it records by default.
"""

from pathlib import Path
from typing import Any

from ledger.policies import Policy
from trainer.sinks.sink import figures_of, run_name, tag

QUIET = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "silent": True,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}
FINISH_SECONDS = 10.0  # for uploads at the end; what is left stays on disk, for `wandb sync`


class WandbSink:
    name = "wandb"

    def __init__(self, project: str, folder: Path) -> None:
        self.folder = folder
        self._project = project
        self._runs: dict[str, Any] = {}  # by name

    def write(self, policy: Policy, row: dict[str, Any]) -> None:
        """W&B itself ignores a step whose number is not above the last one's."""
        figures = {tag(figure): value for figure, value in figures_of(row)}
        self._run(policy).log(
            {**figures, "finished_at": row["finished_at"].timestamp()}, step=row["version"], commit=True
        )

    def close(self) -> None:
        runs, self._runs = self._runs, {}
        for run in runs.values():
            run.finish()

    def _run(self, policy: Policy) -> Any:
        name = run_name(policy)
        if name not in self._runs:
            import wandb

            self.folder.mkdir(parents=True, exist_ok=True)
            self._runs[name] = wandb.init(
                project=self._project,
                name=name,
                id=policy.id.hex,
                resume="allow",
                reinit="create_new",
                dir=str(self.folder),
                config={"policy": policy.line},
                settings=wandb.Settings(**QUIET, finish_timeout=FINISH_SECONDS),
            )
        return self._runs[name]
