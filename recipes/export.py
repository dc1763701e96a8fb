"""Write the trained weights of a run into models/: python recipes/export.py RUN [ARM ..]"""

import pathlib
import sys

import torch

import model as models
from make_tokenizer import ARMS, ROOT


def main():
    run = pathlib.Path(sys.argv[1])
    for arm in sys.argv[2:] or ARMS:
        state = torch.load(run / arm / "state.pt")
        net = models.Llama(models.Config(focal=models.ARMS[arm]))
        net.load_state_dict(state["net"])
        net.save(ROOT / "models" / arm)
        print(f"{arm}: step {state['step']}, {state['tokens'] / 1e6:.2f} M tokens, {state['busy']:.0f} s")


if __name__ == "__main__":
    main()
