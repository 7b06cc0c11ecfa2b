#!/usr/bin/env python3
"""What each run-time feature is worth: TPC-H with all of them on, against each one off, and against all of them off.

    ablation.py [--sf 1] [--rounds 5] [--queries 1,6,18] [--features runtime-filter,broadcast]

One cluster of a JobManager and two TaskManagers of one slot; every variant is a session of its own with its settings. In each round a query runs
once per variant, the order turning from round to round; a first round is not counted. Every answer is compared with DuckDB's. A ratio below 1
says that the feature helps: time with everything on over time with the feature off, medians of the rounds.
The results go to BENCH_DIR/results as JSON.
"""
import argparse
import datetime
import json
import statistics
import sys

from engines import Driver, Failed, Thalweg
from measure import Usage, clean_up_when_told_to_end
from prepare import COLUMNS, binaries, equal, place, python_with, reference_answers, tpch_files

# Off by default, on here.
ON = {"table.optimizer.join-reorder-enabled": "true"}
OFF = {
    "join-order": {"table.optimizer.join-reorder-enabled": "false"},
    "runtime-filter": {"table.optimizer.runtime-filter.enabled": "false"},
    "broadcast": {"table.optimizer.adaptive-broadcast-join.strategy": "none"},
    "local-aggregate": {"table.exec.local-hash-agg.adaptive.enabled": "false"},
    "skew": {"table.optimizer.skewed-join-optimization.strategy": "none"},
    "auto-parallelism": {"execution.batch.adaptive.auto-parallelism.enabled": "false", "parallelism.default": "2"},
    "everything": {"jobmanager.scheduler": "Default", "table.optimizer.runtime-filter.enabled": "false", "parallelism.default": "2",
                   "table.optimizer.join-reorder-enabled": "false"},
}


def arguments():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--sf", default="1", help="scale factor (1)")
    args.add_argument("--rounds", type=int, default=5, help="counted rounds (5)")
    args.add_argument("--queries", default=",".join(map(str, range(1, 23))))
    args.add_argument("--features", default=",".join(OFF), help=f"which to switch off, one by one ({','.join(OFF)})")
    return args.parse_args()


class Variants:
    """Sessions of one cluster, each with its own settings."""

    def __init__(self, engine, features):
        self.engine, self.drivers = engine, {}
        for name in ["all on", *features]:
            driver = Driver([engine.driver_binary, f"127.0.0.1:{engine.port}"], engine.log(f"ablation-{name}"))
            self.drivers[name] = driver
            for key, value in {**ON, **OFF.get(name, {})}.items():
                driver.send(f"DDL SET '{key}' = '{value}'")
            for table, columns in COLUMNS.items():
                driver.send(f"DDL CREATE TABLE {table} ({columns}) WITH ('connector'='filesystem',"
                            f"'path'='{engine.data / table}','format'='parquet')")

    def run(self, name, text, file):
        driver = self.drivers[name]
        with Usage([p.pid for p in self.engine.processes] + [driver.process.pid]) as usage:
            seconds = driver.send(f"QUERY {file} {text}")[0]
        return {"wall_s": seconds, "cpu_s": usage.cpu_s, "others_cpu_s": usage.others_cpu_s}

    def close(self):
        for driver in self.drivers.values():
            driver.close()


def rounds(variants, number, text, count, out, check):
    names = list(variants.drivers)
    runs = {name: [] for name in names}
    for i in range(count + 1):
        for name in names[i % len(names):] + names[:i % len(names)]:
            file = out / f"ablation-q{number:02}.csv"
            run = variants.run(name, text, file)
            wrong = check(number, file)
            if wrong:
                raise Failed(f"q{number:02} with {name}: wrong answer: {wrong}")
            if i > 0:
                runs[name].append(run)
    return {name: {key: statistics.median(r[key] for r in found) for key in ("wall_s", "cpu_s")} for name, found in runs.items()}


def ratios(found):
    base = found["all on"]
    return {name: {key: base[key] / max(result[key], 1e-3) for key in base} for name, result in found.items() if name != "all on"}


def line(name, found):
    cells = [f"{name:5} all on {found['all on']['wall_s']:7.3f} s  cpu {found['all on']['cpu_s']:7.2f} s"]
    cells += [f"{feature} {ratio['wall_s']:4.2f} ({ratio['cpu_s']:4.2f})" for feature, ratio in ratios(found).items()]
    return " | ".join(cells)


def main():
    args = arguments()
    features = [f for f in args.features.split(",") if f]
    unknown = [f for f in features if f not in OFF]
    if unknown:
        sys.exit(f"unknown features: {', '.join(unknown)}; known are {', '.join(OFF)}")
    clean_up_when_told_to_end()
    root = place()
    base = python_with(root, "base")
    target = binaries()
    data = tpch_files(root, base, args.sf)
    answers = reference_answers(root, base, data, args.sf)
    report = {"sf": args.sf, "rounds": args.rounds, "started": datetime.datetime.now().isoformat(timespec="seconds"), "queries": {}}
    engine = Thalweg(root, data, target).start_daemons()
    variants = None
    try:
        variants = Variants(engine, features)
        print("wall ratio (CPU ratio) of everything on against one feature off; below 1 the feature helps")
        for number in map(int, args.queries.split(",")):
            text = (answers / f"q{number:02}.sql").read_text()
            check = lambda n, file: equal(target / "examples/check_answer", answers, n, file)
            found = rounds(variants, number, text, args.rounds, root / "out", check)
            report["queries"][f"q{number:02}"] = found
            print(line(f"q{number:02}", found), flush=True)
    finally:
        if variants:
            variants.close()
        engine.stop()
    every = list(report["queries"].values())
    total = {name: {key: sum(q[name][key] for q in every) for key in every[0][name]} for name in every[0]}
    report["total"] = total
    print(line("total", total))
    file = root / f"results/ablation-{report['started'].replace(':', '')}.json"
    file.write_text(json.dumps(report, indent=1))
    print(f"results: {file}")


if __name__ == "__main__":
    main()
