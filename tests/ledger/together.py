"""Work done at once, in threads; what fails in one of them fails the test."""

import threading
from collections.abc import Callable


def run_all(work: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
