"""Options of ``trellis align`` that are not settings of the aligner."""

from __future__ import annotations

from typing import Annotated

from trellis.apps.align.link_lines import LinkFormat
from trellis.cli.options import (
    DECODING,
    FORMAT,
    KNOWLEDGE,
    LEARNING,
    RUN,
    file_option,
    flag,
    name_option,
    number_option,
)
from trellis.cli.tuning import TUNE

Source = Annotated[list[str] | None, file_option("--source", "-s", help="Source sentences. One per line.")]
Target = Annotated[
    list[str] | None, file_option("--target", "-t", help="Target sentences. One per line, in the same order.")
]
Joined = Annotated[
    list[str] | None, file_option("--input", "-i", help="Both sides: `source ||| target` or tab; `-`: stdin.")
]
Tune = Annotated[
    str | None,
    file_option("--tune", help=f"{TUNE} Gold links of the first lines, for choosing the threshold.", panel=DECODING),
]
Prefix = Annotated[
    int, number_option("--prefix", min=0, help="Number of letters of a stem; 0: whole words only.", panel=LEARNING)
]
StemsOnly = Annotated[
    bool, flag("--stems-only", help="Represent words by their stems only, not by whole words.", panel=LEARNING)
]
Mean = Annotated[
    bool,
    flag(
        "--no-variational",
        help="Estimate translation tables by posterior means; with `--concentration 1e-6`, by EM.",
        panel=LEARNING,
    ),
]
Priors = Annotated[
    str | None,
    file_option(
        "--priors",
        help="Dictionary: source TAB target [TAB weight]; a negative weight forbids the pair.",
        panel=KNOWLEDGE,
    ),
]
Hints = Annotated[
    str | None, file_option("--hints", help="Known links, one line per pair, empty if unknown.", panel=KNOWLEDGE)
]
Format = Annotated[
    LinkFormat,
    name_option("--format", help=f"{FORMAT} One of: pharaoh (from 0), one-based, words (`the:le`)", panel=RUN),
]
Scores = Annotated[bool, flag("--scores", help="Write `i-j:0.93`, with each link's posterior.", panel=RUN)]
ForwardLinks = Annotated[
    str | None,
    file_option(
        "--forward-links",
        "-f",
        help="Write the links of the forward model, p(target | source), to this file.",
        panel=RUN,
    ),
]
BackwardLinks = Annotated[
    str | None,
    file_option(
        "--backward-links",
        help="Write the links of the backward model, p(source | target), to this file. Also: `-r FILE`.",
        panel=RUN,
    ),
]
Probabilities = Annotated[
    str | None,
    file_option("--probabilities", help="Write log t(target | source) of whole words to this file.", panel=RUN),
]
PairScores = Annotated[
    str | None,
    file_option(
        "--pair-scores", help="Write the log-likelihood per word of each pair: forward TAB backward.", panel=RUN
    ),
]
Interactive = Annotated[
    bool, flag("--interactive", help="Answer each line of standard input at once; requires --model.", panel=RUN)
]
