"""Instructions of the main loop of the sm90 kernels of attention and products, a table.

    recipes/sass_loop.py build/cuda/kernels/cuda/*_sm90*.o

The loop is the smallest that holds the wait for all but one group of products (WARPGROUP.DEPBAR with one group left). Counted are all of its
instructions, also those that most blocks skip: masks, sharp rows, the rescaling of sums. Needs cuobjdump on PATH, which
the Python package triton has. Standard library only.
"""
import collections
import re
import subprocess
import sys


def functions(file):
    name, code = None, []
    for line in subprocess.run(["cuobjdump", "-sass", file], capture_output=True, text=True, check=True).stdout.splitlines():
        if "Function :" in line:
            if name:
                yield name, code
            name, code = line.split(":")[1].strip(), []
        elif match := re.match(r"\s*/\*([0-9a-f]{4,5})\*/\s+(.*?);", line):
            code.append((int(match[1], 16), match[2]))
    if name:
        yield name, code


def loop(code):
    wait = next(at for at, text in code if "WARPGROUP.DEPBAR" in text and text.rstrip().endswith("0x1"))
    jumps = [(int(match[1], 16), at) for at, text in code if (match := re.search(r"\bBRA\S* 0x([0-9a-f]+)", text))]
    first, last = min(((to, at) for to, at in jumps if to <= wait <= at), key=lambda jump: jump[1] - jump[0])
    return [text for at, text in code if first <= at <= last]


def main():
    print("| Head dim or outputs | Mask or epilogue | Registers | Instructions | HGMMA | MUFU | FFMA | FADD, FMUL, FMNMX, FSEL | uniform | local memory |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for file in sys.argv[1:]:
        for name, code in functions(file):
            if not (match := re.search(r"(?:Attend|Gather|Product)Sm90KernelILi(\d+)E(?:N|LN)S\d_\d+([A-Za-z]+?(?:E\d)?)EE", name)):
                continue
            counts = collections.Counter(text.removeprefix("@").split()[text.startswith("@")].split(".")[0] for text in loop(code))
            registers = max(int(r) for _, text in code for r in re.findall(r"\bR(\d+)", text)) + 1
            local = sum(text.split()[text.startswith("@")].startswith(("LDL", "STL")) for _, text in code)
            uniform = sum(n for op, n in counts.items() if op.startswith("U"))
            scalar = sum(counts[op] for op in ("FADD", "FMUL", "FMNMX", "FSEL"))
            print(f"| {match[1]} | {match[2]} | {registers} | {sum(counts.values())} | {counts['HGMMA']} | {counts['MUFU']} | "
                  f"{counts['FFMA']} | {scalar} | {uniform} | {local} |")


if __name__ == "__main__":
    main()
