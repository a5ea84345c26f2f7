"""Command lines of fast_align and eflomal, translated to options of ``trellis align``.

typed                       by users of    becomes
-d                          fast_align     nothing: jump widths are always learned
-o, with no file after it   fast_align     nothing: that too is always learned, and links go to standard output
-v                          fast_align     nothing: tables are variational unless --no-variational is given
-r, with no file after it   fast_align     --symmetrize backward
-r FILE                     eflomal        --backward-links FILE
--reverse-links FILE        eflomal        --backward-links FILE
-dov, -dovr                 fast_align     the same, letter by letter

``-o`` is read as fast_align's flag only together with ``-d`` or ``-v``; otherwise its file is reported as missing.
"""

from __future__ import annotations

import sys

from trellis.cli.commands import Answers

TAKEN = "dovr"
"""The letters above, which may stand behind one dash together."""

BARE = "files are named by flags: -s SOURCE -t TARGET, or -i BITEXT"

_SCORES = "use --pair-scores FILE: it has the log-likelihood per word of each pair in both directions"

ANSWERS: Answers = {
    "--iterations": "use --rounds, and --model1-rounds for those of Model 1",
    "--model1-iterations": "use --model1-rounds",
    "--seed": "nothing is random in align: leave it out",
    "--reverse": "use --symmetrize backward",
    "--variational": "this is the default: leave it out (--no-variational turns it off)",
    "--diagonal": "jump widths are always learned: leave it out",
    "--format json": "use --json",
    "-p": "eflomal's -p reads a dictionary: use --priors; fast_align's -p writes probabilities: use --probabilities",
    "-F": _SCORES,
    "--forward-scores": _SCORES,
    "-R": _SCORES,
    "--reverse-scores": _SCORES,
    "-c": "use --probabilities FILE",
    "-l": "rounds do not depend on the length of the text here: use --rounds",
    "--length": "rounds do not depend on the length of the text here: use --rounds",
    "-n": "there are no samplers here, and nothing is random: leave it out",
    "--n-samplers": "there are no samplers here, and nothing is random: leave it out",
    "-N": "the share of unlinked words cannot be set here: leave it out",
    "--null-prior": "the share of unlinked words cannot be set here: leave it out",
    "-a": "the strength of the prior is fixed here: leave it out, or use --no-variational",
    "-T": "jump widths are always learned: leave it out",
    "--source-prefix": "use --prefix, which applies to both sides",
    "--target-prefix": "use --prefix, which applies to both sides",
    "--overwrite": "existing links are always replaced: leave it out",
}


def in_our_words(arguments: list[str]) -> list[str]:
    """The command line with the flags above translated.

    >>> in_our_words(["-i", "text.fr-en", "-d", "-o", "-v"])
    ['-i', 'text.fr-en']
    >>> in_our_words(["-i", "text.fr-en", "-dovr"])
    ['-i', 'text.fr-en', '--symmetrize', 'backward']
    >>> in_our_words(["-s", "s", "-t", "t", "-f", "fwd", "-r", "rev"])
    ['-s', 's', '-t', 't', '-f', 'fwd', '--backward-links', 'rev']
    """
    rest = [one for typed in arguments for one in _letters(typed)]
    theirs = bool({"-d", "-v"} & set(rest))
    ours: list[str] = []
    dropped: list[str] = []
    while rest:
        typed = rest.pop(0)
        alone = not rest or (rest[0].startswith("-") and rest[0] != "-")
        if typed in ("-d", "-v") or (typed == "-o" and alone and theirs):
            dropped.append(typed)
        elif typed == "-r":
            ours += ["--symmetrize", "backward"] if alone else ["--backward-links"]
        else:
            name, equals, value = typed.partition("=")
            ours.append("--backward-links" + equals + value if name == "--reverse-links" else typed)
    if dropped and not {"-q", "--quiet"} & set(ours):
        where = "; links go to standard output, -o FILE names a file" if "-o" in dropped else ""
        sys.stderr.write(f"Note: {' '.join(dropped)}: in trellis align these are always on{where}\n")
    return ours


def _letters(typed: str) -> list[str]:
    if len(typed) > 2 and typed[0] == "-" and set(typed[1:]) <= set(TAKEN):
        return [f"-{letter}" for letter in typed[1:]]
    return [typed]
