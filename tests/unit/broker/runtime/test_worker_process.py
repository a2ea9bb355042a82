"""A child process that answers lines, and always ends."""

import asyncio
import os
import signal

import pytest

from headrace.broker.maintenance.log_cleaner import WORKER
from headrace.broker.runtime.offload import ThreadOffload
from headrace.broker.runtime.worker import WorkerEnded
from headrace.broker.runtime.worker_process import WorkerProcess
from headrace.storage.cleaning.cleaner_messages import CleaningFailed, decode_report


def started() -> tuple[WorkerProcess, ThreadOffload]:
    loop = asyncio.get_running_loop()
    offload = ThreadOffload(loop)
    return WorkerProcess(loop, offload, WORKER), offload


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_invalid_job_gets_a_response_and_so_does_the_next_job() -> None:
    async def main() -> None:
        worker, offload = started()
        try:
            for line in (b"[1, 2]\n", b"x" * 1_000_000 + b"\n"):
                await worker.send(line)
                answer = decode_report(await worker.receive())
                assert isinstance(answer, CleaningFailed)
                assert not answer.is_transient
        finally:
            worker.close()
            offload.close()
        assert not is_there(worker.pid)

    asyncio.run(main())


def test_a_worker_can_be_closed_immediately() -> None:
    async def main() -> None:
        worker, offload = started()
        worker.close()
        offload.close()
        assert not is_there(worker.pid)

    asyncio.run(main())


def test_receive_raises_when_the_worker_is_killed() -> None:
    async def main() -> None:
        worker, offload = started()
        try:
            os.kill(worker.pid, signal.SIGKILL)
            with pytest.raises(WorkerEnded):
                await worker.receive()
            with pytest.raises(WorkerEnded):
                while True:
                    await worker.send(b"[]\n")
        finally:
            worker.close()
            offload.close()

    asyncio.run(main())
