"""docs/studies/head_temperatures.md. From recipes/:

    python -m head_temperatures fit head_temperatures/smollm2-2k.toml --out DIR       fits or resumes, one thread
    python -m head_temperatures table head_temperatures/smollm2-2k.toml --out DIR     where the temperatures are; loss on other text
    python -m llama fold BASE TARGET --temperatures DIR/temperatures.json             as an ordinary checkpoint
"""

import json

from flags import Path, parse


def main() -> None:
    options = parse(__doc__, {"command": dict(choices=("fit", "table")), "config": Path}, "python -m head_temperatures", out=Path)
    import torch

    from head_temperatures import fit

    torch.set_num_threads(1)
    fitter = fit.Fitter(fit.read(options.config), options.out)
    if options.command == "fit":
        fitter.fit()
        return
    rows = fitter.held_out()
    (options.out / "held_out.json").write_text(json.dumps(rows) + "\n")
    print(f"{fitter.step * fitter.config.rows * fitter.config.data.length} tokens\n\n" + fit.summary(fitter.heads.temperatures(), rows), end="")


if __name__ == "__main__":
    main()
