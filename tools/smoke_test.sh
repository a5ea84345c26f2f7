#!/bin/sh
# Builds a wheel and an sdist, installs each into an environment of its own, and uses it as a stranger would: `make dist`.
# usage: tools/smoke_test.sh PYTHON      (a Python that has `build`)
set -eu
python=$1
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$root/dist"
"$python" -m build --outdir "$root/dist" "$root" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
for made in "$root"/dist/*.whl "$root"/dist/*.tar.gz; do
    echo "== $(basename "$made")"
    "$python" -m venv "$work/env"
    "$work/env/bin/pip" --disable-pip-version-check --quiet install "$made"
    cd "$work"
    cp -r "$root/examples" samples
    "$work/env/bin/trellis" --version
    "$work/env/bin/trellis" align -q -s samples/garden/text.en -t samples/garden/text.fr -o links
    "$work/env/bin/trellis" evaluate --alignment samples/garden/gold.links links
    cd samples/citations
    "$work/env/bin/trellis" train -q rules.toml --model-kind hmm -l few.tsv -u text.txt --save m
    "$work/env/bin/trellis" predict -q -m m gold.tsv -o out.tsv
    "$work/env/bin/trellis" evaluate gold.tsv out.tsv | head -n 2
    "$work/env/bin/trellis" report gold.tsv -m m -o page.html
    cd "$root"
    rm -rf "$work/env" "$work/samples" "$work/links"
done
echo "both install and work"
