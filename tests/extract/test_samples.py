"""The samples that ship with the project are what the pages say they are."""

from tests.extract.samples import EXAMPLES
from trellis.data.text_files import read_labelled, read_texts


def test_shipped_samples_are_five_labelled_and_three_hundred_others():
    for domain in ("citations", "ads"):
        assert len(read_labelled(EXAMPLES / domain / "few.tsv")) == 5
        assert len(read_texts(EXAMPLES / domain / "text.txt")) == 300
        assert len(read_labelled(EXAMPLES / domain / "gold.tsv")) == 100
