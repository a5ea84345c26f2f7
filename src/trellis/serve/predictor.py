"""The thread in which a process predicts: requests that wait for one model are answered together.

A prediction of many inputs costs less than as many predictions of one. What a request gets does not depend on the
others: inputs are predicted independently of each other, and where predicting several requests fails, each is
predicted alone.
"""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from trellis.data.jsonlines import parse_json
from trellis.errors import TrellisError, counted
from trellis.serve.guard import RequestError
from trellis.serve.kinds import ServedKind, check_text
from trellis.serve.metrics import Metrics

WAITING = 200
"""Requests that wait in a process; more are answered 503."""
TOGETHER = 256
"""Inputs of several requests that are predicted together."""


@dataclass
class Job:
    """A request that waits: its model, its body, until when, and who is told the answer."""

    name: str
    body: bytes
    until: float
    answer: asyncio.Future[bytes]
    inputs: list[Any] = field(default_factory=list)

    def tell(self, found: bytes | Exception) -> None:
        """Hand over the answer, from the thread."""

        def deliver() -> None:
            if self.answer.done():  # nobody waits any more
                return
            if isinstance(found, Exception):
                self.answer.set_exception(found)
            else:
                self.answer.set_result(found)

        self.answer.get_loop().call_soon_threadsafe(deliver)


class Predictor:
    """Answers requests, one batch at a time.

    models : name -> model and kind;  batch : inputs of a request at most;  seconds : until an answer at most
    """

    def __init__(
        self, models: Mapping[str, tuple[Any, ServedKind]], metrics: Metrics, *, batch: int, seconds: float
    ) -> None:  # fmt: skip
        self.models, self.metrics, self.batch, self.seconds = models, metrics, batch, seconds
        self.thread = ThreadPoolExecutor(1, "predict")
        self.jobs: deque[Job] = deque()

    async def predict(self, name: str, body: bytes, until: float) -> bytes:
        """The answer to a request; a RequestError says why there is none."""
        if len(self.jobs) >= WAITING:
            raise RequestError(503, f"{WAITING} requests wait already: try again later", {"retry-after": "1"})
        loop = asyncio.get_running_loop()
        job = Job(name, body, until, loop.create_future())
        self.jobs.append(job)
        self.thread.submit(self.work)
        try:
            async with asyncio.timeout(max(until - time.monotonic(), 0.0)):
                return await job.answer
        except TimeoutError:
            raise self.too_late() from None

    async def warm(self) -> None:
        """Predict an example with every model, which compiles what it needs."""
        loop = asyncio.get_running_loop()
        for name, (model, kind) in self.models.items():
            try:
                inputs = self.read(name, json.dumps({"inputs": [kind.example]}).encode())
                await loop.run_in_executor(self.thread, kind.answer, model, inputs)
            except (TrellisError, RequestError):  # the example says nothing to this model
                continue

    def close(self) -> None:
        """Wait for the batch that runs."""
        self.thread.shutdown(cancel_futures=True)

    def too_late(self) -> RequestError:
        """What a request is told whose time has passed."""
        message = f"the answer was not ready within {self.seconds:g} s: send fewer inputs, or try again later"
        return RequestError(503, message, {"retry-after": "1"})

    def work(self) -> None:
        """Answer the request that has waited longest, and those after it that can be answered with it."""
        jobs: list[Job] = []
        while self.jobs and (not jobs or self.jobs[0].name == jobs[0].name):
            job = self.jobs.popleft()
            try:
                if time.monotonic() > job.until or job.answer.cancelled():
                    raise self.too_late()
                job.inputs = self.read(job.name, job.body)
            except RequestError as error:
                job.tell(error)
                continue
            except Exception as error:
                job.tell(error)
                continue
            jobs.append(job)
            if sum(len(one.inputs) for one in jobs) >= TOGETHER:
                break
        if jobs:
            self.answer(jobs)

    def answer(self, jobs: list[Job]) -> None:
        """Predict the inputs of these requests, which are for one model."""
        start, name = time.monotonic(), jobs[0].name
        model, kind = self.models[name]
        inputs = [one for job in jobs for one in job.inputs]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = iter(kind.answer(model, inputs) if inputs else [])
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    self.answer([job])
            else:
                jobs[0].tell(RequestError(422, str(error)) if isinstance(error, TrellisError) else error)
            return
        for job in jobs:
            own = [next(results) for _ in job.inputs]
            job.tell(json.dumps({"results": own}, ensure_ascii=False).encode())
        self.metrics.worked(name, len(inputs), time.monotonic() - start)

    def read(self, name: str, body: bytes) -> list[Any]:
        """The inputs of a request, as the model takes them."""
        model, kind = self.models[name]
        found = []
        for number, one in enumerate(self._inputs(body)):
            try:
                check_text(one)
                found.append(kind.read(model, one))
            except TrellisError as error:
                raise RequestError(422, f"input {number}: {error}") from None
        return found

    def _inputs(self, body: bytes) -> list[Any]:
        try:
            given = parse_json(body.decode("utf-8"), "the body")
        except UnicodeDecodeError as error:
            message = f"the body is not UTF-8: byte {error.start + 1} is 0x{body[error.start]:02x}"
            raise RequestError(422, message) from None
        except TrellisError as error:
            raise RequestError(422, str(error)) from None
        if not isinstance(given, dict) or not isinstance(given.get("inputs"), list):
            raise RequestError(422, 'expected {"inputs": [...]}, a list with one input for each result')
        if unknown := sorted(set(given) - {"inputs"}):
            raise RequestError(422, f'unknown key {unknown[0][:100]!r}: expected {{"inputs": [...]}}')
        inputs: list[Any] = given["inputs"]
        if len(inputs) > self.batch:
            raise RequestError(
                413,
                f"{counted(len(inputs), 'input')}, but at most {self.batch} are allowed: send them in several requests",
            )
        return inputs
