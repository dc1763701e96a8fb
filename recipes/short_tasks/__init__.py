"""Rows of the seven short benchmarks, complete, in the releases' layout: deploy/get_short_tasks.sh runs `convert`."""
