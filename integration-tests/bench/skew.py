#!/usr/bin/env python3
"""A join with a hot key, its skewed parts divided among tasks and not: what that brings and what it costs.

    skew.py [--rows 20000000] [--pairs 3] [--shapes 40,80,zipf]

A fact table of which 40 or 80 per cent of the rows have one key, or whose keys follow a zipf distribution with exponent 1.2, joins a dimension of a
million keys. Both sides are shuffled (no broadcast). The same query runs with table.optimizer.skewed-join-optimization.strategy = auto and none in
pairs, the order changing; answers must agree. Balance is the largest task of the join over the median one, by the bytes it reads (from the
decisions) and by run time (which other processes disturb). The results go to BENCH_DIR/results as JSON.
"""
import argparse
import datetime
import json
import re
import statistics
import subprocess

from bench import timed
from engines import Thalweg
from measure import clean_up_when_told_to_end
from prepare import binaries, place, python_with

KEYS = 1_000_000
SHAPES = {
    "40": "CASE WHEN random() < 0.4 THEN 7 ELSE floor(random() * {keys})::BIGINT END",
    "80": "CASE WHEN random() < 0.8 THEN 7 ELSE floor(random() * {keys})::BIGINT END",
    # the inverse of the distribution function of a Pareto law with exponent 1.2, cut at the number of keys
    "zipf": "floor(pow(1 - random() * (1 - pow({keys}, -0.2)), -5))::BIGINT",
}
QUERY = ("SELECT COUNT(*) AS c, SUM(f.v * d.w) AS s, COUNT(DISTINCT d.name) AS n, MAX(CONCAT(f.pad, d.name)) AS m "
         "FROM fact f JOIN dim d ON f.k = d.k")
SETTINGS = {
    "execution.batch.single-task-threshold": "0",
    "table.optimizer.join.broadcast-threshold": "-1",
    "table.optimizer.skewed-join-optimization.skewed-threshold": "32 mb",
}
STRATEGY = "table.optimizer.skewed-join-optimization.strategy"


def arguments():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--rows", type=int, default=20_000_000, help="of the fact table (20000000)")
    args.add_argument("--pairs", type=int, default=3, help="counted pairs per shape (3)")
    args.add_argument("--shapes", default="40,80,zipf")
    return args.parse_args()


def tables(root, python, rows, shape):
    """The two tables as parquet, made once."""
    data = root / f"data/skew-{shape}-{rows}"
    if data.exists():
        return data
    partial = data.with_suffix(".partial")
    subprocess.run(["rm", "-rf", partial], check=True)
    statements = ["SELECT setseed(0.42)", "SET threads = 1"]
    for part in range(4):
        columns = (f"{SHAPES[shape].format(keys=KEYS)} AS k, floor(random() * 10000)::BIGINT AS v, "
                   "'p' || floor(random() * 1e12)::BIGINT AS pad")
        statements.append(f"COPY (SELECT {columns} FROM range({rows // 4})) TO '{partial}/fact/{part}.parquet'")
    for part in range(2):
        statements.append(f"COPY (SELECT i AS k, 'name-' || (i % 1000) AS name, i % 97 AS w FROM range({KEYS + 1}) t(i) WHERE i % 2 = {part}) "
                          f"TO '{partial}/dim/{part}.parquet'")
    for table in ("fact", "dim"):
        (partial / table).mkdir(parents=True)
    program = "import duckdb, sys\nfor s in sys.argv[1:]: duckdb.execute(s)"
    subprocess.run([python, "-c", program, *statements], check=True)
    partial.rename(data)
    return data


def last_job(engine):
    """What the cluster shows of the last job: its stages, attempts and decisions."""
    remote = ["--jobmanager", f"127.0.0.1:{engine.port}", "--json"]
    def shown(*command):
        return json.loads(subprocess.run([engine.binary, "jobs", *command, *remote], check=True, capture_output=True, text=True).stdout)
    newest = max(shown("list"), key=lambda job: job["submitted_at_ms"])
    return shown("show", newest["job_id"])


def join_tasks(job):
    """How many tasks the join got, the bytes of the largest over those of the median one, and the same of run times."""
    stage = next(s for s in job["stages"] if "join" in s["name"])
    decided = {d["rule"]: d["outcome"] for d in job["decisions"] if d["stage"] == stage["stage"]}
    median, largest = map(int, re.search(r"median (\d+), max (\d+)", decided["parallelism"]).groups())
    divided = decided.get("skewed-join")
    if divided:
        largest = max(largest, int(re.search(r"parts of at most (\d+)", divided).group(1)))
    seconds = [a["duration_ms"] / 1000 for a in stage["attempts"] if a["state"].lower() == "finished"]
    return {"tasks": len(seconds), "bytes_max_over_median": largest / median,
            "time_max_over_median": max(seconds) / max(statistics.median(seconds), 1e-3), "decision": divided}


def measure(engine, shape, pairs, out):
    runs, answers = {"auto": [], "none": []}, set()
    for i in range(pairs + 1):
        for strategy in (("auto", "none") if i % 2 == 0 else ("none", "auto")):
            engine.driver.send(f"DDL SET '{STRATEGY}' = '{strategy}'")
            file = out / f"skew-{shape}-{strategy}.csv"
            run = timed(engine, QUERY, file)
            answers.add(file.read_text())
            run |= join_tasks(last_job(engine))
            if i > 0:
                runs[strategy].append(run)
    medians = ("wall_s", "cpu_s", "tasks", "bytes_max_over_median", "time_max_over_median")
    found = {s: {key: statistics.median(r[key] for r in rs) for key in medians} | {"decision": rs[-1]["decision"]} for s, rs in runs.items()}
    return {**found, "off_over_on": found["none"]["wall_s"] / found["auto"]["wall_s"], "answers_equal": len(answers) == 1}


def main():
    args = arguments()
    clean_up_when_told_to_end()
    root = place()
    python, target = python_with(root, "base"), binaries()
    report = {}
    for shape in args.shapes.split(","):
        engine = Thalweg(root, tables(root, python, args.rows, shape), target).start_daemons()
        try:
            engine.start_driver()
            engine.driver.send(f"DDL CREATE TABLE fact (k BIGINT, v BIGINT, pad STRING) WITH ('connector'='filesystem','path'='{engine.data}/fact',"
                               "'format'='parquet')")
            engine.driver.send(f"DDL CREATE TABLE dim (k BIGINT, name STRING, w BIGINT) WITH ('connector'='filesystem','path'='{engine.data}/dim',"
                               "'format'='parquet')")
            for key, value in SETTINGS.items():
                engine.driver.send(f"DDL SET '{key}' = '{value}'")
            found = report[shape] = measure(engine, shape, args.pairs, root / "out")
        finally:
            engine.stop()
        for strategy in ("none", "auto"):
            one = found[strategy]
            print(f"{shape:>4} {strategy}: {one['wall_s']:6.2f} s  cpu {one['cpu_s']:6.2f} s  {one['tasks']} tasks, largest over median "
                  f"{one['bytes_max_over_median']:.2f} by bytes, {one['time_max_over_median']:.2f} by time  {one['decision'] or ''}", flush=True)
        print(f"{shape:>4} none over auto: {found['off_over_on']:.2f}, answers equal: {found['answers_equal']}", flush=True)
    file = root / f"results/skew-{datetime.datetime.now():%Y-%m-%dT%H%M%S}.json"
    file.write_text(json.dumps(report, indent=1))
    print("results:", file)
    return 0 if all(found["answers_equal"] for found in report.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
