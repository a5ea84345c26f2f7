"""TreeInducer: dependency trees from tagged text alone, or from text and a few rules about arcs.

The model is the dependency model with valence (:mod:`trellis.models.dmv`), trained by EM from Klein and Manning's
start; rules are constraints on expected counts of arcs over the corpus, in the E-step (posterior regularization).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.apps.parse.parser import tagged
from trellis.apps.parse.tree_task import LABELLER, TreeTask
from trellis.apps.parse.tree_text import strip
from trellis.constraints import Constraint, parse_rules
from trellis.data.document import Document
from trellis.data.tokens import as_documents
from trellis.errors import DataError
from trellis.learn import UEM
from trellis.models.dmv import DMV
from trellis.models.documentation import documented
from trellis.models.state import Entry, Member


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class TreeInducer(TreeTask):
    """Induce dependency trees without a treebank, with a DMV and rules about arcs.

    Parameters
    ----------
    rules : str, default=""
        Text of a rules file about arcs.
    max_length : int, default=10
        Longer sentences are not used in training. Words are counted, without punctuation.
    gamma : float, default=1.0
        Temperature γ of the posteriors. 1: EM or posterior regularization, 0: hard.
    prior : float, default=1.0
        Dirichlet parameter α of all distributions.
    harmonic : float or None, default=1.0
        The harmonic start weights arcs by 1 / (harmonic + distance). None gives all trees the same weight.

    Examples
    --------
    >>> from trellis.data.document import Document
    >>> text = [Document(("dogs", "bark", "."), ("N", "V", "PUNCT"))]
    >>> rules = '[[rule]]\\narcs = "count"\\nhead_root = true\\nchild_column = { upos = "V" }\\nat_least = 0.9'
    >>> TreeInducer(rules=rules, max_iter=3).fit(text).predict(text)[0].columns["head"]
    ('2', '0', '2')
    """

    rules: str = ""
    rules_path: str = "rules.toml"
    files: Mapping[str, str] | None = None
    max_length: int = 10
    max_iter: int = 40
    gamma: float = 1.0
    prior: float = 1.0
    harmonic: float | None = 1.0
    n_jobs: int | None = None
    engine: Any = None
    verbose: bool = False

    saved: ClassVar = {
        "model": Member("model_", DMV, "model_"), "labeller": LABELLER,
        "files": Entry("files_", dict[str, str], default={}),
    }  # fmt: skip

    def fit(self, X: Iterable[Document], y: object = None) -> Self:
        """Learn from tagged sentences; their trees, if any, are ignored."""
        self._check_types()
        self._check_settings()
        given = as_documents(X)
        stripped = [strip(s, text) for s, text in zip(given, tagged(given), strict=True)]
        text = [own.words for own in stripped if 0 < len(own.words) <= self.max_length]
        if not text:
            raise DataError(f"no sentence has 1 to {self.max_length} words, punctuation aside: raise max_length")
        model = DMV(
            root_prior=self.prior, child_prior=self.prior, stop_prior=self.prior, harmonic=self.harmonic
        )  # fmt: skip
        learner = UEM(
            model, self._constraints(), gamma=self.gamma, start="uniform", max_iter=self.max_iter, tol=0,
            n_jobs=self.n_jobs, engine=self.engine, verbose=self.verbose,
        ).fit(text)  # fmt: skip
        self.model_, self.history_ = learner.model_, learner.history_
        self.n_sentences_ = len(text)
        return self

    def _constraints(self) -> list[Constraint]:
        rules = parse_rules(self.rules, self.rules_path, self.files)
        self.files_ = dict(rules.files)
        return list(rules.constraints)

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        self.files = self.files_
        self._constraints()

    def _check_settings(self) -> None:
        self._check_whole(max_length=1, max_iter=1)
        self._check_within(gamma=(0.0, np.inf), prior=(1.0, 1e9), harmonic=(0.0, 1e9))
