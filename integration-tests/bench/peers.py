#!/usr/bin/env python3
"""One pass of other engines over the same TPC-H files: where Thalweg stands among them.

    peers.py [--sf 10] [--engines thalweg,duckdb,datafusion,sail,spark,flink] [--warm-ups 0] [--runs 1]

Each engine starts, answers every query once, and ends; answers are compared with DuckDB's. The files are read once before, so that all find them in
the page cache. With --warm-ups each query first runs that often uncounted, with --runs the median of several counts. Engines run one after the other,
so the ratios are coarser than bench.py's pairs. A query that fails or takes longer than ten minutes is counted as failed, and the pass goes on. Spark
needs a Java 17 on the path and Flink a JDK 17; an engine that cannot be set up is named and left out.
"""
import argparse
import datetime
import json
import statistics
import subprocess
import sys

from bench import timed
from engines import Failed, InProcess, Sail, Spark, Thalweg
from flink import Flink
from measure import clean_up_when_told_to_end
from prepare import binaries, equal, place, python_with, reference_answers, tpch_files

CANNOT_START = (Failed, TimeoutError, OSError, subprocess.CalledProcessError)


def arguments():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--sf", default="10", help="scale factor (10)")
    args.add_argument("--engines", default="thalweg,duckdb,datafusion,sail,spark,flink")
    args.add_argument("--runs", type=int, default=1, help="counted runs per query (1)")
    args.add_argument("--warm-ups", type=int, default=0, help="uncounted runs per query before those (0)")
    args.add_argument("--queries", default=",".join(map(str, range(1, 23))))
    return args.parse_args()


def make(name, root, data, target):
    if name == "thalweg":
        return Thalweg(root, data, target)
    if name == "sail":
        return Sail(root, data, python_with(root, "sail"))
    if name == "spark":
        return Spark(root, data, python_with(root, "spark"))
    if name == "flink":
        return Flink(root, data)
    if name in ("duckdb", "datafusion"):
        return InProcess(name, root, data, python_with(root, "base"))
    raise SystemExit(f"{name} is not an engine known here")


def one_query(engine, number, text, args, file, check):
    found = []
    for i in range(args.warm_ups + args.runs):
        try:
            run = timed(engine, text, file)
        except Failed as error:
            return {"error": str(error)}
        wrong = check(number, file)
        if wrong:
            return {"error": f"wrong answer: {wrong}"}
        if i >= args.warm_ups:
            found.append(run)
    return {"wall_s": statistics.median(r["wall_s"] for r in found), "cpu_s": statistics.median(r["cpu_s"] for r in found),
            "peak_mb": max(r["peak_mb"] for r in found)}


def one_engine(name, args, root, data, answers, target):
    engine = None
    try:
        try:
            engine = make(name, root, data, target)
            engine.start()
        except CANNOT_START as error:
            print(f"{name}: left out, it does not start here: {error}", flush=True)
            return {"error": str(error)}
        return all_queries(engine, args, root, answers, target)
    finally:
        if engine:
            engine.stop()


def all_queries(engine, args, root, answers, target):
    check = lambda number, file: equal(target / "examples/check_answer", answers, number, file)
    found = {}
    for number in map(int, args.queries.split(",")):
        text = (answers / f"q{number:02}.sql").read_text()
        result = restarted(engine) or one_query(engine, number, text, args, root / f"out/{engine.name}-q{number:02}.csv", check)
        found[f"q{number:02}"] = result
        print(f"{engine.name} q{number:02} " + (result.get("error") or f"{result['wall_s']:.3f} s  cpu {result['cpu_s']:.2f} s"), flush=True)
    return found


def restarted(engine):
    """Starts an engine anew when a query has cost it a process; an error instead of a result when it does not come back."""
    if engine.whole():
        return None
    try:
        engine.stop()
        engine.start()
    except CANNOT_START as error:
        return {"error": f"not run, the engine does not start again: {error}"}
    return None


def table(report):
    """Sums over the queries that every engine which started has answered, with their ratio to the first engine's."""
    started = {n: q for n, q in report["engines"].items() if q and "error" not in q}
    common = [q for q in next(iter(started.values()), {}) if all("error" not in s.get(q, {"error": ""}) for s in started.values())]
    print(f"\n{len(common)} queries that all answered, scale factor {report['sf']}:")
    sums = {name: sum(queries[q]["wall_s"] for q in common) for name, queries in started.items()}
    first = next(iter(sums.values()), 0)
    for name, wall in sorted(sums.items(), key=lambda item: item[1]):
        cpu = sum(started[name][q]["cpu_s"] for q in common)
        peak = max((started[name][q]["peak_mb"] for q in common), default=0)
        failed = sum("error" in r for r in started[name].values())
        print(f"{name:12} {wall:8.2f} s  {wall / first if first else 0:6.2f} x  cpu {cpu:8.2f} s  {peak:6.0f} MB  failed {failed}")


def read_once(data):
    """Brings the files into the page cache."""
    for file in sorted(data.rglob("*.parquet")):
        with open(file, "rb") as content:
            while content.read(8 << 20):
                pass


def main():
    args = arguments()
    clean_up_when_told_to_end()
    root = place()
    base = python_with(root, "base")
    target = binaries()
    data = tpch_files(root, base, args.sf)
    answers = reference_answers(root, base, data, args.sf)
    read_once(data)
    report = {"sf": args.sf, "started": datetime.datetime.now().isoformat(timespec="seconds"), "engines": {}}
    file = root / f"results/peers-{report['started'].replace(':', '')}.json"
    for name in args.engines.split(","):
        report["engines"][name] = one_engine(name, args, root, data, answers, target)
        file.write_text(json.dumps(report, indent=1))
    table(report)
    print(f"results: {file}")
    if not any("error" not in q for q in report["engines"].values()):
        sys.exit("no engine ran")


if __name__ == "__main__":
    main()
