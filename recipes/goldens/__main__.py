"""Makes every golden file, and shows what each would notice.

    python recipes/goldens make [architectures|packed|focus|llama|attention|inspection|tokenizers|statistics|unicode|random|sampling] [NAME...]
    python recipes/goldens mutation_test [packed|focus|tokenizers|NAME...]
"""

import importlib
import pathlib
import sys

NAMED = ("architectures", "packed", "focus")  # whose cases can be made by their names
MAKERS = (*NAMED, "llama", "attention", "inspection", "tokenizers", "statistics", "unicode_classes", "random", "sampling")


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    verb, *names = sys.argv[1:] or [None]
    what = {"unicode": "unicode_classes"}.get(names[0], names[0]) if names else None
    if verb == "make" and (not names or what in MAKERS):
        for maker in [what] if what else MAKERS:
            make = importlib.import_module("make_" + maker).main
            make(names[1:]) if maker in NAMED else make()
    elif verb == "mutation_test" and names in (["packed"], ["tokenizers"]):
        importlib.import_module("make_" + names[0]).mutation_test()
    elif verb == "mutation_test":
        of_focus = names[:1] == ["focus"]
        importlib.import_module("focus_mutations" if of_focus else "mutations").main(names[of_focus:])
    else:
        raise SystemExit(__doc__.strip())


main()
