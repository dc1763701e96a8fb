"""Two models on a small suite, from submission to a table.

    varifocald --db=results.db --model=baseline=models/baseline --model=focal=models/focal-constant &
    python client/python/examples/two_models.py results.db
"""

import argparse

import varifocal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", help="the file that the daemon writes")
    parser.add_argument("--daemon", default="127.0.0.1:50151")
    parser.add_argument("--baseline", default="baseline")
    parser.add_argument("--candidate", default="focal")
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    arguments = parser.parse_args()

    with varifocal.connect(arguments.daemon) as client:
        spec = client.make_spec("quick", [arguments.baseline, arguments.candidate], lengths=[arguments.length],
                                limit=arguments.limit)
        estimate = client.estimate(spec)
        print(f"{estimate.sample_count} samples, {estimate.computed_prompt_token_count} prompt tokens to compute")
        job = client.submit(spec.suite, list(spec.variants), limit=arguments.limit)
        job.wait(lambda now: print(now))
        print(job.cells().groupby("variant")[["planned_count", "done_count", "failed_count"]].sum())

    results = varifocal.Database(arguments.database)
    samples = results.samples(job.id)
    print(samples.pivot_table(index=["task", "context_length"], columns="variant", values="value"))
    compared = results.compare(arguments.baseline, arguments.candidate, job.id)
    means = compared[compared["kind"] == "suite_mean"]
    print(means[["context_length", "difference", "low", "high", "p_adjusted", "outcome"]])


if __name__ == "__main__":
    main()
