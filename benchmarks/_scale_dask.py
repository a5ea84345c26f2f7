"""One alignment on Dask workers of this machine: seconds, the memory of every process, and the bytes that travel.

    python benchmarks/_scale_dask.py SOURCE TARGET LINKS WORKERS MEMORY        prints one line of JSON

Bytes are those that Dask's connections write, in every process, packed as they travel: from this process (with the
scheduler in it) to workers, and from workers.
"""

from __future__ import annotations

import json
import os
import sys
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

    return tcp.TCP.write.sent


def peak() -> float:
    """Most megabytes that this process has had."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def processor() -> float:
    times = os.times()
    return times.user + times.system


def main() -> None:
    source, target, links, workers, memory = sys.argv[1:]
    from trellis.data.bitext import read_two_files
    from trellis.engine.dask import DaskEngine
    from trellis.tasks.align import Aligner

    engine = DaskEngine.local(int(workers))
    count_bytes()
    engine.client.run(count_bytes)
    began = time.monotonic(), processor()
    before = engine.client.run(processor)
    aligner = Aligner(engine=engine, n_jobs=1, memory=memory)
    with open(links, "w", encoding="utf-8") as out:
        for row in aligner.fit_align(read_two_files(source, target)):
            out.write(row.pharaoh() + "\n")
    spent = [after - before[worker] for worker, after in engine.client.run(processor).items()]
    record = {
        "seconds": time.monotonic() - began[0], "cpu": processor() - began[1] + sum(spent), "mb": peak(),
        "worker_mb": list(engine.client.run(peak).values()), "worker_cpu": spent,
        "sent_mb": sent() / 2**20, "from_workers_mb": sum(engine.client.run(sent).values()) / 2**20,
    }  # fmt: skip
    print(json.dumps(record), flush=True)
    engine.close()


if __name__ == "__main__":
    main()
