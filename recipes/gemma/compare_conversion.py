"""Does convert.py write what transformers writes? Converts once more with transformers, accelerate and gguf, and compares.

    python recipes/gemma/compare_conversion.py MODEL.gguf DIRECTORY      (DIRECTORY: what convert.py wrote)
"""

import hashlib
import json
import pathlib
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROVENANCE = {"_model_name_or_path", "transformers_version"}  # keys that say who wrote the file


def main(source, ours):
    source, ours = pathlib.Path(source).resolve(), pathlib.Path(ours)
    with tempfile.TemporaryDirectory() as theirs:
        theirs = pathlib.Path(theirs)
        model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.bfloat16)
        # The file's weights were quantized; what is saved is not.
        del model.config.quantization_config
        model.is_quantized, model.hf_quantizer = False, None
        model.save_pretrained(theirs)
        AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(theirs)
        same = True
        for name in ("model.safetensors", "tokenizer.json"):
            digests = [hashlib.sha256((d / name).read_bytes()).hexdigest() for d in (ours, theirs)]
            same &= digests[0] == digests[1]
            print(f"{name}: {'the same bytes, ' + digests[0] if digests[0] == digests[1] else 'different bytes'}")
        for name in ("config.json", "generation_config.json"):
            a, b = (json.loads((d / name).read_text()) for d in (ours, theirs))
            differ = sorted(k for k in (a.keys() | b.keys()) if a.get(k) != b.get(k))
            print(f"{name}: differs in {', '.join(differ) or 'nothing'}")
            same &= name != "config.json" or set(differ) <= PROVENANCE
    return 0 if same else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__.strip())
    sys.exit(main(*sys.argv[1:]))
