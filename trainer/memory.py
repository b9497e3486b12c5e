"""Peak memory of this process, in MiB: on the GPU where there is one in use, else resident."""

import resource
import sys

MIB = 1 << 20


def peak_memory_mib() -> int:
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return torch.cuda.max_memory_allocated() // MIB
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // MIB
