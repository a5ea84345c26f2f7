"""Pretrained transformers: a tiny one is built and saved here; nothing is downloaded."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")
transformers = pytest.importorskip("transformers", reason="needs: pip install 'trellis-learn[transformers]'")
pytestmark = pytest.mark.filterwarnings("ignore")

from trellis.data.batch import Batch  # noqa: E402
from trellis.errors import DataError  # noqa: E402
from trellis.models import load_model  # noqa: E402
from trellis.neural import NeuralCRF, Pretrained  # noqa: E402

from .test_crf import LABELS, NAMES, TEXT  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT of two layers of 16, whose tokeniser cuts words into pieces."""
    path = tmp_path_factory.mktemp("bert")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    pieces += [f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"] + ["the", "dog", "##s", "cat", "bark"]
    pieces = list(dict.fromkeys(pieces))
    made(pieces).save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(pieces), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(path)
    return path


def made(pieces):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    own = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    own.normalizer, own.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    own.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_subwords_are_pooled_to_words(folder, pooling):
    encoder = Pretrained(folder, pooling=pooling)
    batch = Batch.from_sentences([["dogs", "bark"], ["the", "zebra"]])
    net = encoder.learned_from(batch).build().eval()
    with torch.inference_mode():
        found = net(batch)
        ids = torch.tensor([net.tokeniser.encode(["dogs", "bark"], is_pretokenized=True).ids])
        hidden = net.body(input_ids=ids).last_hidden_state[0]
    assert found.shape == (4, 16)
    dogs = hidden[1] if pooling == "first" else hidden[1:3].mean(dim=0)
    torch.testing.assert_close(found[0], dogs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1], hidden[3], rtol=1e-4, atol=1e-5)


def test_long_sentences_are_read_in_pieces(folder):
    batch = Batch.from_sentences([["dogs"] * 40])
    net = Pretrained(folder, longest=20).learned_from(batch).build().eval()
    with torch.inference_mode():
        assert net(batch).abs().sum(dim=1).min() > 0


@pytest.mark.parametrize("frozen", [False, True])
def test_it_is_trained_saved_and_read_without_its_folder(folder, frozen, tmp_path):
    encoder = Pretrained(folder, frozen=frozen, learning_rate=0.003)
    model = NeuralCRF(encoder, NAMES, max_iter=40, learning_rate=0.03).fit(TEXT, LABELS)
    before = Pretrained(folder).learned_from(model.encode(TEXT)).build().body.state_dict()
    same = all(torch.equal(one, before[name]) for name, one in model.net_.body.body.state_dict().items())
    assert same == frozen
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    for one, other in zip(again.predict_proba(TEXT), model.predict_proba(TEXT), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    if not frozen:
        assert model.score(TEXT, LABELS) > 0.9


def test_what_is_no_transformer_is_told(tmp_path):
    with pytest.raises(DataError, match="there is no transformer at"):
        NeuralCRF(str(tmp_path)).fit(TEXT, LABELS)
