"""A server against calling the estimator in a loop, and under many clients (`make bench-serve`).

    make bench-serve                       100,000 requests
    make bench-serve ARGS="--small"        a hundred, in seconds

One server process on the loopback address, with an extractor (examples/citations, an HMM) and a tagger.

throughput   batches of texts, one after the other, by one client, and the same batches predicted in a loop in this
             process; wall-clock times of both, taken in turn, and the ratio of their medians
clients      concurrent clients that each send one text at a time: latency and throughput
memory       many single requests to the tagger: resident memory of the server after the first tenth and at the end
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import _small

from trellis import Extractor, Tagger, load_model
from trellis.data.conllu import read_conllu
from trellis.data.text_files import read_labelled
from trellis.serve.kinds import EXTRACT
from trellis.serve.metrics import resident

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


class Client:
    """A connection that stays open."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def predict(self, model: str, inputs: Sequence[Any]) -> tuple[int, list[Any]]:
        body = json.dumps({"inputs": inputs})
        self.connection.request("POST", f"/models/{model}/predict", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        found = json.loads(answer.read())
        return answer.status, found.get("results", [])


def train(folder: Path) -> None:
    citations = EXAMPLES / "citations"
    Extractor(citations / "rules.toml", model_kind="hmm").fit(read_labelled(citations / "few.tsv")).save(
        folder / "fields.trellis"
    )
    Tagger(max_iter=5).fit(list(read_conllu(EXAMPLES / "garden" / "train.conllu"))[:50]).save(folder / "tags.trellis")


def throughput(port: int, path: Path, texts: Sequence[str], size: int, rounds: int) -> None:
    model = load_model(path, n_jobs=1)
    batches = [list(texts[at : at + size]) for at in range(0, len(texts) - size + 1, size)]
    client = Client(port)

    def served(batch: list[str]) -> Any:
        return client.predict("fields", batch)[1]

    def looped(batch: list[str]) -> Any:
        return EXTRACT.answer(model, [EXTRACT.read(model, text) for text in batch])

    assert json.dumps(served(batches[0])) == json.dumps(looped(batches[0]))
    spent: dict[str, list[float]] = {"served": [], "looped": []}
    for batch in islice(cycle(batches), rounds):
        for name, call in (("served", served), ("looped", looped)):
            begin = time.perf_counter()
            call(batch)
            spent[name].append(time.perf_counter() - begin)
    one, other = (statistics.median(spent[name]) for name in ("served", "looped"))
    print(f"{size:>8} {size / other:>12.1f} {size / one:>12.1f} {one / other:>8.2f}", flush=True)


def clients(port: int, texts: Sequence[str], n_clients: int, n_requests: int) -> None:
    def ask(number: int) -> list[tuple[float, int]]:
        client, found = Client(port), []
        for at in range(number, n_requests, n_clients):
            begin = time.perf_counter()
            status, results = client.predict("fields", [texts[at % len(texts)]])
            found.append((time.perf_counter() - begin, status if len(results) == 1 else 0))
        return found

    begin = time.perf_counter()
    with ThreadPoolExecutor(n_clients) as pool:
        every = [one for own in pool.map(ask, range(n_clients)) for one in own]
    spent = time.perf_counter() - begin
    latency = sorted(seconds for seconds, _ in every)
    errors = sum(status != 200 for _, status in every)
    at = [latency[min(int(share * len(latency)), len(latency) - 1)] for share in (0.5, 0.99)]
    shown = f"{n_clients:>8} {len(every):>9} {1e3 * at[0]:>9.1f} {1e3 * at[1]:>9.1f}"
    print(f"{shown} {len(every) / spent:>11.1f} {errors:>7}", flush=True)


def memory(port: int, process: int, n_requests: int, n_clients: int = 4) -> None:
    words = [["a", "rose", "climbs"], ["the", "old", "gardener", "sleeps"]]

    def ask(n: int) -> int:
        client, wrong = Client(port), 0
        for number in range(n):
            wrong += client.predict("tags", [{"tokens": words[number % 2]}])[0] != 200
        return wrong

    done = wrong = 0
    sizes = []
    for share in (0.1, 0.4, 0.7, 1.0):
        more = round(share * n_requests) - done
        with ThreadPoolExecutor(n_clients) as pool:
            wrong += sum(pool.map(ask, [more // n_clients] * n_clients))
        done += more // n_clients * n_clients
        sizes.append(resident(process) / 1e6)
        print(f"{done:>9,} {sizes[-1]:>9.1f} {sizes[-1] - sizes[0]:>9.1f} {wrong:>7}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000, help="requests that memory is watched over")
    parser.add_argument("--clients", type=int, default=50, help="concurrent clients")
    parser.add_argument("--rounds", type=int, default=60, help="batches of each size")
    options = _small.arguments(parser, requests=80, clients=2, rounds=2)
    folder = _small.scratch_folder()
    train(folder)
    texts = (EXAMPLES / "citations" / "text.txt").read_text(encoding="utf-8").splitlines()
    command = [sys.executable, "-m", "trellis", "serve", "fields.trellis", "tags.trellis", "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)
    try:
        assert server.stderr is not None
        line = server.stderr.readline()
        found = re.search(r":(\d+)$", line.strip())
        if found is None:
            raise SystemExit(line + server.stderr.read())
        port = int(found[1])
        print(f"{'batch':>8} {'loop/s':>12} {'served/s':>12} {'ratio':>8}")
        for size in (1, 16, 64):
            throughput(port, folder / "fields.trellis", texts, size, options.rounds)
        print(f"\n{'clients':>8} {'requests':>9} {'median ms':>9} {'p99 ms':>9} {'requests/s':>11} {'errors':>7}")
        for n in (1, options.clients):
            clients(port, texts, n, 20 * options.clients)
        print(f"\n{'requests':>9} {'MB':>9} {'growth':>9} {'errors':>7}")
        memory(port, server.pid, options.requests)
    finally:
        server.terminate()
        server.wait(20)
        if server.stderr is not None:
            server.stderr.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
