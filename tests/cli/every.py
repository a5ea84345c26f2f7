"""Files and models for one run of every command, small enough to be made in seconds."""

from __future__ import annotations

from pathlib import Path

from tests.cli.tree import COMMANDS
from tests.hostile.command import run, train

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUIET = ("-q", "--threads", "1")
TREE = (
    "1\ta\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_\n3\tran\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
)
FILES = {
    "s": "a b\nb a\n",
    "t": "x y\ny x\n",
    "s2": "a@@ b\nba\n",
    "links": "0-0 1-1\n0-0 1-1\n",
    "trees.conllu": TREE * 3,
    "pairs.tsv": "ab\txy\t1\nba\tyx\t1\nab\tyy\t0\nbb\txy\t0\n",
    "votes.tsv": "# token\tf\ttwo\nAnn\tB-NAME\t_\n1999\tO\tO\n\nBob\tB-NAME\tB-NAME\n",
    "tagged.tsv": "a\tDET\ncat\tNOUN\n\na\tDET\ndog\tNOUN\n",
}
MODELS = {
    "aligner": "align -s s -t t -o links --rounds 1 --model1-rounds 1 --save aligner",
    "aggregator": "aggregate votes.tsv -o a.tsv --force --save aggregator",
    "parser": "parse train trees.conllu --bits 8 --passes 1 --save parser",
    "tagger": "tag train trees.conllu --save tagger",
    "matcher": "match train pairs.tsv --rounds 1 --save matcher",
    "relater": "relate train people.toml -l people.jsonl --rounds 1 --save relater",
    "hmm": "induce s -k 2 --method em --rounds 1 -o states.tsv --force --save hmm",
}
"""Model -> the command that makes it; m, the extractor, is made by :func:`train`."""

RUNS = {
    "align": "align -s s -t t --rounds 1 --model1-rounds 1",
    "align map": "align map --links links -s s --new-source s2",
    "align phrases": "align phrases -s s -t t --links links",
    "extract check": "extract check rules.toml few.tsv",
    "extract train": "extract train rules.toml -l few.tsv --rounds 1 --save made",
    "extract predict": "extract predict -m m text.txt",
    "extract explain": "extract explain -m m few.tsv",
    "induce": "induce s -k 2 --method em --rounds 1",
    "tag train": "tag train trees.conllu --save made",
    "tag predict": "tag predict trees.conllu -m tagger",
    "parse train": "parse train trees.conllu --bits 8 --passes 1 --save made",
    "parse predict": "parse predict trees.conllu -m parser",
    "match train": "match train pairs.tsv --rounds 1 --save made",
    "match predict": "match predict pairs.tsv -m matcher",
    "induce-trees": "induce-trees trees.conllu --rounds 1",
    "transfer": "transfer --source-parser parser -s trees.conllu -t trees.conllu --links links3 --save made "
    "--parse trees.conllu",
    "aggregate": "aggregate votes.tsv",
    "relate train": "relate train people.toml -l people.jsonl --rounds 1 --save made",
    "relate predict": "relate predict people.jsonl -m relater",
    "relate explain": "relate explain people.jsonl -m relater",
    "evaluate": "evaluate few.tsv few.tsv",
    "extract errors": "extract errors few.tsv few.tsv",
    "report": "report few.tsv -m m -o -",
    "extract tokens": "extract tokens text.txt",
    "extract propose": "extract propose text.txt -l few.tsv --min-occurrences 1",
    "extract suggest": "extract suggest -m m text.txt --texts 2",
    "extract convert": "extract convert few.tsv --to brackets",
    "info": "info -m m",
}
"""Command -> a run of it that succeeds in the folder that :func:`furnish` makes."""
assert set(RUNS) == set(COMMANDS)
PRINTS = [name for name in RUNS if name.split()[-1] != "train"]
"""Those that write to standard output."""


def words(command, line=None):
    """The words of a run, quiet and on one thread where the command has these flags."""
    from tests.cli.tree import flags

    own = flags(command)
    more = [*(["-q"] if "--quiet" in own else []), *(["--threads", "1"] if "--threads" in own else [])]
    return [*(line or RUNS[command]).split(), *more]


def furnish(folder, monkeypatch):
    """Put the files and models of ``RUNS`` into a folder."""
    monkeypatch.chdir(folder)
    train(folder)
    for name, text in {**FILES, "links3": "0-0 1-1 2-2\n" * 3}.items():
        (folder / name).write_text(text, encoding="utf-8")
    people = (EXAMPLES / "people" / "few.jsonl").read_text(encoding="utf-8").splitlines(True)
    (folder / "people.jsonl").write_text("".join(people[:6]), encoding="utf-8")
    (folder / "people.toml").write_bytes((EXAMPLES / "people" / "rules.toml").read_bytes())
    for name, line in MODELS.items():
        assert run(*line.split(), "-q") == 0, name
