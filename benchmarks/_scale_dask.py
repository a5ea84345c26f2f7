"""One alignment on Dask workers of this machine: seconds, the memory of every process, and the bytes that travel.

    python benchmarks/_scale_dask.py SOURCE TARGET LINKS WORKERS MEMORY [KILL]     prints one line of JSON

KILL : seconds after which a worker is killed; Dask starts another in its place, which has to be given work

Every 20 seconds a line on standard error says what each process has at the time.

Bytes are those that Dask's connections write, in every process, packed as they travel: from this process (with the
scheduler in it) to workers, and from workers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time


def count_bytes() -> None:
    """Count in this process what its connections write; again: from 0."""
    from distributed.comm import tcp

    plain = getattr(tcp.TCP.write, "plain", tcp.TCP.write)

    async def write(self, *given, **more):
        sent = await plain(self, *given, **more)
        write.sent += sent
        return sent

    write.plain, write.sent = plain, 0
    tcp.TCP.write = write


def sent() -> int:
    from distributed.comm import tcp

    return getattr(tcp.TCP.write, "sent", 0)  # a worker that was started in place of another counts nothing


def megabytes(process: int | str = "self", field: str = "VmHWM") -> float:
    """Most megabytes that a process has had, or those that it has (VmRSS); 0 where there is no such process."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii") as lines:
            return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), 0.0)
    except OSError:
        return 0.0


class Watch(threading.Thread):
    """Looks at the workers of a cluster twice a second; ``most`` has the peak of each, those that died included."""

    def __init__(self, cluster, kill: float | None) -> None:
        super().__init__(daemon=True)
        self.cluster, self.kill, self.began, self.most = cluster, kill, time.monotonic(), {}

    def run(self) -> None:
        for turn in range(10**9):
            alive = [nanny.pid for nanny in self.cluster.workers.values() if nanny.pid]
            for worker in alive:
                self.most[worker] = max(self.most.get(worker, 0.0), megabytes(worker))
            spent = time.monotonic() - self.began
            if turn % 40 == 0:
                own = ", ".join(f"{worker}: {megabytes(worker, 'VmRSS'):.0f}" for worker in alive)
                print(f"{spent:.0f} s, MB: {megabytes(field='VmRSS'):.0f}; {own}", file=sys.stderr, flush=True)
            if self.kill is not None and spent > self.kill:
                print(f"{spent:.0f} s: killing {alive[0]}", file=sys.stderr, flush=True)
                os.kill(alive[0], signal.SIGKILL)
                self.kill = None
            time.sleep(0.5)


def processor() -> float:
    times = os.times()
    return times.user + times.system


def main() -> None:
    source, target, links, workers, memory, *kill = sys.argv[1:]
    from trellis.apps.align.aligner import Aligner
    from trellis.data.bitext import read_two_files
    from trellis.engine.dask import DaskEngine

    engine = DaskEngine.local(int(workers))
    count_bytes()
    engine.client.run(count_bytes)
    watch = Watch(engine._cluster, float(kill[0]) if kill else None)
    watch.start()
    began = time.monotonic(), processor()
    before = engine.client.run(processor)
    aligner = Aligner(engine=engine, n_jobs=1, memory=memory)
    with open(links, "w", encoding="utf-8") as out:
        for row in aligner.fit_align(read_two_files(source, target)):
            out.write(row.pharaoh() + "\n")
    spent = [after - before.get(worker, 0.0) for worker, after in engine.client.run(processor).items()]
    record = {
        "seconds": time.monotonic() - began[0], "cpu": processor() - began[1] + sum(spent), "mb": megabytes(),
        "worker_mb": list(watch.most.values()), "worker_cpu": spent,
        "sent_mb": sent() / 2**20, "from_workers_mb": sum(engine.client.run(sent).values()) / 2**20,
    }  # fmt: skip
    print(json.dumps(record), flush=True)
    engine.close()


if __name__ == "__main__":
    main()
