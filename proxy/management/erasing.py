"""DELETE of a user or a trajectory: short transactions, one after the other, then the spool's files in a thread.

A client that hangs up in the middle leaves an erasure that is requested and not finished: the same request goes on.
"""

import asyncio
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from ledger.erasure.erase import begin, changed_tables, erase_some, finish, is_erased_by
from ledger.erasure.files import erase_files
from ledger.erasure.statistics import analyse
from ledger.erasure.subject import Subject
from proxy.access.caller import Caller
from proxy.management.bounded import in_transaction


async def erased(engine: AsyncEngine, spool: Path, caller: Caller, subject: Subject) -> dict[str, Any]:
    """The report. Raises LedgerUnavailableError; what was erased until then stays erased."""
    requested_by = f"key {caller.key_id}" if caller.key_id else "anyone"
    erasure = await in_transaction(engine, begin, caller.project, subject, requested_by)
    while await in_transaction(engine, erase_some, erasure):
        pass
    for table in await in_transaction(engine, changed_tables, erasure):
        await in_transaction(engine, analyse, table)
    report = await in_transaction(engine, finish, erasure)
    is_erased = await in_transaction(engine, is_erased_by, erasure, caller.project)
    return report | {"spool": await asyncio.to_thread(erase_files, spool, is_erased, subject.needles)}
