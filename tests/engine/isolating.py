"""An engine that copies everything in and out, as another machine would."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from trellis.engine import Placed, Shard
from trellis.engine.engine import numbered, run_shard


def copied(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


class IsolatingEngine:
    """Nothing that work writes to its arguments is ever seen by anybody."""

    @property
    def near(self) -> IsolatingEngine:
        return self

    def place(self, items: Sequence[Any], shards: Sequence[Shard] | None = None) -> Placed[Any]:
        return Isolated(items, numbered(len(items)) if shards is None else shards)


class Isolated(Placed[Any]):
    def __init__(self, items: Sequence[Any], shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        self.pickled = [pickle.dumps(item) for item in items]

    def run(self, work: Any, parameters: Any = None, own: Sequence[Any] | None = None) -> Iterator[Any]:
        given = pickle.dumps((work, parameters))
        for number, shard in enumerate(self.shards):
            function, known = pickle.loads(given)
            more = () if own is None else (copied(own[number]),)
            arguments = (known, pickle.loads(self.pickled[number]), copied(self.states[number]), *more)
            result, self.states[number] = copied(run_shard(function, shard, *arguments))
            yield result
