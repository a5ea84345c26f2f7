"""The models of an extractor: an HMM, trained under the rules, and a CRF, trained on labels and pseudo-labels.

Pseudo-labels come from the product of the HMM and of a CRF trained on the labelled texts only, under the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from trellis.apps.extract.encoding import completed, naming
from trellis.apps.extract.features import EDGES, TokenFeatures, boundary_features
from trellis.apps.extract.word_classes import OTHER
from trellis.data.batch import Batch
from trellis.data.corpus import Corpus
from trellis.data.document import Document
from trellis.data.ragged import BoolArray, FloatArray, LabelArray
from trellis.engine import by_chunks
from trellis.errors import DataError
from trellis.models import CRF, HMM, SemiCRF
from trellis.models.inference import OUTPUTS, Inference
from trellis.models.saving import missing_function
from trellis.models.views import Views

if TYPE_CHECKING:
    from trellis.apps.extract.extractor import Extractor

SEEN = "seen"
"""The column that the HMM emits; rules look at the words themselves."""
MARKS = "mark"
"""The column with the punctuation mark before a label."""

MODEL_KINDS: dict[str, type[HMM] | type[CRF]] = {"crf": CRF, "semi-crf": SemiCRF, "hmm": HMM}
SOFTENED = 2.0
"""Temperature of the CRF posteriors that the network learns; it gets half the weight of the CRF in prediction."""
PSEUDO_LABELLED = 0.3
"""Weight of a pseudo-labelled text; that of a labelled one is 1."""


def new_hmm(extractor: Extractor) -> HMM:
    """The HMM before training."""
    one = extractor
    return HMM(
        list(one.label_names_), min_count=1, unknown=OTHER, emits=SEEN, transition_prior=one.transition_prior,
        emission_prior=one.emission_prior, back_off=one.back_off, after=MARKS if one.back_off else None,
    )  # fmt: skip


def trained_crf(extractor: Extractor, texts: Sequence[Document]) -> Any:
    """A CRF trained on the labelled texts, and on the others with pseudo-labels; the HMM, if there are no labels.

    extractor : its HMM is trained
    """
    kind, hmm = cast("type[CRF]", MODEL_KINDS[extractor.kind_]), cast("HMM", extractor.ccm_.model_)
    known = [t.labels is not None and None not in t.labels for t in texts]
    labelled = [t for t, complete in zip(texts, known, strict=True) if complete]
    others = [t for t, complete in zip(texts, known, strict=True) if not complete]
    again = kind is SemiCRF
    if extractor.method_ == "supervised" or not others:
        return _final(extractor, kind, extractor.corpus(labelled, again=again)) if labelled else hmm
    corpus = extractor.corpus(labelled)
    first = _crf(extractor, CRF, corpus) if labelled else None
    seen = np.bincount(corpus.batch.labels, minlength=len(extractor.label_names_)) > 0
    work = partial(pseudo_labels, extractor, hmm, first, seen)
    codes = np.concatenate(list(by_chunks(work, others, extractor.n_jobs)))
    given = extractor.corpus([*labelled, *others], again=again)
    weights = np.repeat([1.0, PSEUDO_LABELLED], [len(labelled), len(others)])
    return _final(extractor, kind, completed(given, codes), weights, given)


def _final(
    extractor: Extractor,
    kind: type[CRF],
    corpus: Corpus,
    weights: FloatArray | None = None,
    given: Corpus | None = None,
) -> Any:
    """The final model: a CRF, or its product with a network that is distilled from it.

    given : the corpus without pseudo-labels
    """
    crf = _crf(extractor, kind, corpus, weights)
    if extractor.encoder is None:
        return crf
    from trellis.neural import distil

    given = corpus if given is None else given
    network = new_network(extractor, list(extractor.label_names_), len(given.batch))
    return Views([crf, distil(network, crf, given, temperature=SOFTENED, sample_weight=weights)])


def new_network(extractor: Extractor, labels: list[str], n_texts: int = 1) -> Any:
    """The network before training, which is small because there are few texts."""
    from trellis.neural import NeuralCRF
    from trellis.neural.encoders import for_few_texts

    encoder, settings = for_few_texts(extractor.encoder, n_texts)
    return NeuralCRF(
        encoder, labels, device=extractor.device, random_state=extractor.random_state, n_jobs=extractor.n_jobs,
        **settings,
    )  # fmt: skip


def pseudo_labels(
    extractor: Extractor, hmm: HMM, crf: CRF | None, seen: BoolArray, texts: Sequence[Document]
) -> Iterator[LabelArray]:
    """Codes from the product of both models; labels without an example come from the HMM alone.

    seen : (n_labels,) whether a labelled text has the label
    """

    def codes(model: Any) -> LabelArray:
        found: LabelArray = infer_with(extractor, model, texts, extractor.method_ not in ("em", "hard-em")).outputs
        return found

    together = codes(hmm if crf is None else Views([crf, hmm]))
    if crf is not None and not seen.all():
        alone = codes(hmm)
        together = np.where(seen[alone], together, alone)
    yield together


def _crf(extractor: Extractor, kind: type[CRF], corpus: Corpus, weights: FloatArray | None = None) -> CRF:
    """A CRF, or one over segments, trained on texts with labels."""
    own: dict[str, Any] = {"edge_features": EDGES}
    if kind is SemiCRF:
        phrases = {one.name: one.phrases for one in extractor.text_features_ if one.phrases}
        own = {"boundaries": boundary_features, "dictionaries": phrases}
    model = kind(
        list(extractor.label_names_), features=token_features(extractor), tol=1e-4, n_jobs=extractor.n_jobs,
        engine=extractor.engine, **own,
    )  # fmt: skip
    return model.fit(corpus, sample_weight=weights)


def token_features(extractor: Extractor) -> TokenFeatures:
    """The features of its CRF."""
    missing = missing_function(extractor.features)
    if missing is not None:
        raise DataError(
            f"this extractor was trained with the feature function {missing}, which its file cannot hold: "
            "load_model(path, features=...) with that function"
        )
    return TokenFeatures(extractor.features, extractor.text_features_)


def infer_with(
    extractor: Extractor, model: Any, texts: Sequence[Document], constrained: bool, transductive: bool = False
) -> Inference:
    """Inference with one of its models; its outputs are known when this returns."""
    ccm = copy(extractor.ccm_)
    ccm.model_ = model
    with naming(texts):
        batch = coded(extractor, model, texts, labels=False)
        return ccm.infer(batch, constrained=constrained, transductive=transductive).compute(OUTPUTS)


def coded(extractor: Extractor, model: Any, texts: Sequence[Document], *, labels: bool) -> Batch:
    """Texts encoded for one of its models."""
    corpus = extractor.corpus(texts, labels=labels, again=isinstance(model, SemiCRF))
    found: Batch = model.encode([corpus] * len(model.members) if isinstance(model, Views) else corpus)
    return found
