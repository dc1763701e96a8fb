"""What a device's figures are held against: the goals of docs/gpu/README.md, in one table for gpu_peers.py and gpu_table.py."""

# Times that a row of gpu_bench has besides its own: (key, what it is).
IN_ROW = [("constant_ms", "constant scale"), ("cold_ms", "cold"), ("chunked_ms", "chunked"), ("dense_ms", "dense"),
          ("masked_ms", "masked"), ("greedy_ms", "greedy"), ("one_by_one_ms", "one by one"), ("alone_ms", "alone")]

# (kind of cell, condition, against, times as fast at least); the first that fits counts.
GOALS = [
    ("product", lambda c: c["rows"] >= 2048, "matmul", 0.98),
    ("decode_product", lambda c: c["rows"] <= 8, "matmul", 0.95),
    ("attention", lambda c: c["context"] == 0 and c["scale"] == 0, "flash", 0.95),
    ("attention", lambda c: c["context"] == 0 and c["scale"] == 0 and c["rows"] >= 8192, "cudnn", 0.85),
    ("attention", lambda c: c["context"] == 0 and c["scale"] == 0, "cudnn", 0.50),
    ("attention", lambda c: c["scale"] != 0, "constant scale", 0.99),
    ("attention", lambda c: c["context"] > 0, "masked", 3.0),
    ("attention", lambda c: c["groups"] > 0 and c["gathered"] and c["rows"] >= 32768, "dense", 3.0),
    ("attention", lambda c: c["groups"] > 0 and c["gathered"] and c["rows"] >= 16384, "dense", 1.8),
    ("attention", lambda c: c["groups"] > 0, "dense", 1.0),
    ("decode", lambda c: c["groups"] > 0, "dense", 1.0),
    ("decode", lambda c: not c["shared"], "flash", 1.5),
    ("decode", lambda c: c["key_bytes"] >= 150e6 and not c["shared"], "copy", 0.85),
    ("decode", lambda c: c["shared"], "unshared", 5.0),
    ("model_prefill", lambda c: c["rows"] == 8192, "floor", 0.80),
    ("model_prefill", lambda c: True, "floor", 0.60),
    ("model_prefill", lambda c: True, "transformers flash", 1.5),
    ("model_prefill", lambda c: True, "transformers cudnn", 1.2),
    ("model_decode", lambda c: c["context"] >= 32768 or c["sequences"] == 1, "floor", 0.75),
    ("model_decode", lambda c: True, "floor", 0.60),
    ("model_decode", lambda c: True, "transformers", 4.0),
    ("model_decode", lambda c: True, "transformers compiled", 1.5),
    ("model_prefill", lambda c: c["tau"], "dense", 0.97),
    ("model_decode", lambda c: c["draws"], "greedy", 0.9),
    ("model_decode", lambda c: c["graphs"], "one by one", 1.0),
    ("two_models", lambda c: True, "alone", 0.1),
    ("continuations", lambda c: c["total"] >= 1000, "cold", 50.0),
    ("continuations", lambda c: 1 < c["total"] < 1000, "transformers again", 30.0),
    ("continuations", lambda c: 1 < c["total"] < 1000, "transformers cached", 2.0),
    ("determinism", lambda c: True, "chunked", 0.97),
    ("load", lambda c: True, "transformers", 2.0),
]

# Steps of deploy/gpu_check.sh that time variants in turns: (variant that the others are held against, times as fast at least).
STEPS = {"sm90": ("mma", 1.0), "products": ("library", 0.98), "decode": ("separate:prefetch=off", 1.0), "together": ("mma", 1.0)}


def goal_of(cell, against):
    """Times as fast as `against` that a cell should be, or None. Cells of groups are held against themselves alone."""
    if cell["groups"] and against != "dense":
        return None
    return next((goal for kind, fits, name, goal in GOALS if kind == cell["kind"] and name == against and fits(cell)), None)


def complete(cell, backend, row):
    """The cell with what goals ask of it besides gpu_bench's fields."""
    cell["gathered"] = "gathered" in backend
    cell["key_bytes"] = row.get("bytes", 0)
    return cell


def floor_ms(row, tflops, gbps):
    """What the run's own ceilings allow."""
    return max(row.get("flops", 0) / tflops * 1e-9, row.get("bytes", 0) / gbps * 1e-6)
