"""Compares the output of convert.py with a conversion by transformers, accelerate and gguf.

    python recipes/public_models/compare_conversion.py MODEL.gguf DIRECTORY      (DIRECTORY: what convert.py wrote)

Exit status 0: the weights are the same bytes, and configuration and tokenizer differ in nothing that matters. A tokenizer
may differ in its pre-tokenizer and in how an absent post-processor is written: transformers' loader of llamas leaves out the
step of SmolLM2's own tokenizer that splits digits.
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
        digests = [hashlib.sha256((d / "model.safetensors").read_bytes()).hexdigest() for d in (ours, theirs)]
        same = digests[0] == digests[1]
        print(f"model.safetensors: {'the same bytes, ' + digests[0] if same else 'different bytes'}")
        a, b = ((d / "tokenizer.json").read_bytes() for d in (ours, theirs))
        differ = {k for k, v in json.loads(a).items() if v != json.loads(b).get(k)}
        print(f"tokenizer.json: {'the same bytes' if a == b else 'differs in ' + (', '.join(sorted(differ)) or 'layout alone')}")
        same &= differ <= {"pre_tokenizer", "post_processor"}
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
