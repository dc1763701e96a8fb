"""Makes every golden file, and shows what each would notice.

    python recipes/goldens make [architectures|packed|focus|llama|attention|inspection|tokenizers|statistics|unicode|random|sampling] [NAME...]
    python recipes/goldens mutation_test [packed|focus|tokenizers|NAME...]
"""

import pathlib
import runpy
import sys

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = {
    "llama": "make_llama.py",
    "attention": "make_attention.py",
    "inspection": "make_inspection.py",
    "tokenizers": "make_tokenizers.py",
    "statistics": "make_statistics.py",
    "unicode": "make_unicode_classes.py",
    "random": "make_random.py",
    "sampling": "make_sampling.py",
}


def make(what, names):
    if what in (None, "architectures"):
        import make_architectures

        make_architectures.main(names)
    if what in (None, "packed"):
        import make_packed

        make_packed.main(names)
    if what in (None, "focus"):
        import make_focus

        make_focus.main(names)
    for name, script in SCRIPTS.items():
        if what in (None, name):
            sys.argv = [str(HERE / script)]
            runpy.run_path(sys.argv[0], run_name="__main__")


def main():
    sys.path.insert(0, str(HERE))
    arguments = sys.argv[1:]
    if arguments[:1] == ["make"] and (len(arguments) == 1 or arguments[1] in ("architectures", "packed", "focus", *SCRIPTS)):
        make(arguments[1] if len(arguments) > 1 else None, arguments[2:])
    elif arguments == ["mutation_test", "tokenizers"]:
        sys.argv = [str(HERE / SCRIPTS["tokenizers"]), "mutation_test"]
        runpy.run_path(sys.argv[0], run_name="__main__")
    elif arguments == ["mutation_test", "packed"]:
        import make_packed

        make_packed.mutation_test()
    elif arguments[:2] == ["mutation_test", "focus"]:
        import focus_mutations

        focus_mutations.main(arguments[2:])
    elif arguments[:1] == ["mutation_test"]:
        import mutations

        mutations.main(arguments[1:])
    else:
        raise SystemExit(__doc__.strip())


main()
