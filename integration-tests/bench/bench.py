#!/usr/bin/env python3
"""Thalweg against in-process DataFusion on TPC-H, and what it costs to start, to stand idle and to answer one row.

    bench.py [--sf 10] [--pairs 3] [--queries 1,6,18]

DataFusion inside one process with two partitions is the bound a distributed engine on the same kernels can be held to: it neither starts tasks
nor moves bytes. The two run the same query in pairs, one right after the other, the order changing from pair to pair; one uncounted pair
first brings the files into the page cache. Every answer is compared with DuckDB's. Ratios within a run are the result; seconds depend on the
machine. `others` is CPU that neither engine used: when it is not near zero, the machine was busy and the run is worth little.
The results go to BENCH_DIR/results as JSON.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

from engines import Failed, InProcess, Thalweg
from measure import Usage, anonymous_mb, clean_up_when_told_to_end
from prepare import binaries, equal, place, python_with, reference_answers, tpch_files


def arguments():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--sf", default="10", help="scale factor (10)")
    args.add_argument("--pairs", type=int, default=3, help="counted pairs per query (3)")
    args.add_argument("--queries", default=",".join(map(str, range(1, 23))))
    args.add_argument("--limit", type=float, default=1200, help="seconds after which no new query is begun (1200)")
    args.add_argument("--only-datafusion", action="store_true", help="measure the bound alone")
    return args.parse_args()


def timed(engine, text, file):
    with Usage(engine.pids) as usage:
        seconds = engine.query(text, file)
    return {"wall_s": seconds, "cpu_s": usage.cpu_s, "peak_mb": usage.peak_mb, "others_cpu_s": usage.others_cpu_s}


def pairs(engines, number, text, count, out, check):
    """Runs of each engine by name; a failed or wrong engine has an error instead."""
    runs = {e.name: [] for e in engines}
    errors = {}
    for i in range(count + 1):
        for engine in (engines if i % 2 == 0 else engines[::-1]):
            if engine.name in errors:
                continue
            file = out / f"{engine.name}-q{number:02}.csv"
            try:
                run = timed(engine, text, file)
            except Failed as error:
                errors[engine.name] = str(error)
                continue
            wrong = check(number, file)
            if wrong:
                errors[engine.name] = f"wrong answer: {wrong}"
            elif i > 0:
                runs[engine.name].append(run)
    return {name: summary(found, errors.get(name)) for name, found in runs.items()}


def summary(runs, error):
    if error:
        return {"error": error}
    median = {key: statistics.median(r[key] for r in runs) for key in ("wall_s", "cpu_s")}
    return {**median, "peak_mb": max(r["peak_mb"] for r in runs), "others_cpu_s": max(r["others_cpu_s"] for r in runs), "runs": runs}


def line(number, found):
    cells = [f"q{number:02}"]
    for name, result in found.items():
        if "error" in result:
            cells.append(f"{name} FAILED: {result['error'].splitlines()[0][:100]}")
        else:
            cells.append(f"{name} {result['wall_s']:7.3f} s  cpu {result['cpu_s']:7.2f} s  {result['peak_mb']:6.0f} MB")
    ok = [r for r in found.values() if "error" not in r]
    if len(ok) == 2:
        cells.append(f"ratio {ok[0]['wall_s'] / ok[1]['wall_s']:5.2f}  cpu {ok[0]['cpu_s'] / max(ok[1]['cpu_s'], 0.01):5.2f}")
    if ok:
        cells.append(f"others {max(r['others_cpu_s'] for r in ok):.1f} s")
    return "  | ".join(cells)


def totals(queries):
    """Sums over the queries both engines answered."""
    both = [q for q in queries.values() if len(q) == 2 and all("error" not in r for r in q.values())]
    names = list(both[0]) if both else []
    sums = {n: {k: sum(q[n][k] for q in both) for k in ("wall_s", "cpu_s")} | {"peak_mb": max(q[n]["peak_mb"] for q in both)}
            for n in names}
    return {"queries": len(both), **sums}


def cold_start(target):
    """Seconds of `thalweg local -e 'SELECT 1'`, median of ten."""
    def once():
        start = time.perf_counter()
        subprocess.run([target / "thalweg", "local", "-e", "SELECT 1"], check=True, capture_output=True)
        return time.perf_counter() - start
    return statistics.median(once() for _ in range(10))


# What the daemons set for themselves (docs/decisions/0003).
ALLOCATOR = {"MIMALLOC_PURGE_DELAY": "10000", "MIMALLOC_ALLOW_THP": "2"}


def small_things(root, data, target):
    """Idle memory, one-row latency, cold start, exchange."""
    found = {}
    engine = Thalweg(root, data, target).start_daemons()
    try:
        time.sleep(2)  # let start-up work settle: this is a reading of rest, not a wait for a condition
        found["idle_anonymous_mb"] = {"jobmanager": anonymous_mb(engine.pids[0]), "taskmanager": anonymous_mb(engine.pids[1])}
        command = [target / "examples/point_latency", f"127.0.0.1:{engine.port}", "500"]
        found["one_row_query"] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    finally:
        engine.stop()
    found["cold_local_select_1_s"] = cold_start(target)
    exchange = target / "examples/exchange_bench"
    if exchange.exists():
        done = subprocess.run([exchange], capture_output=True, text=True, env={**os.environ, **ALLOCATOR})
        found["exchange"] = {"exit_code": done.returncode, "output": (done.stdout + done.stderr).splitlines()}
    return found


def print_small(found):
    for key, value in found.items():
        if key == "exchange":
            print("exchange:", *value["output"], sep="\n  ")
        else:
            print(f"{key}: {value}")


def run(args, root, report):
    base = python_with(root, "base")
    target = binaries()
    data = tpch_files(root, base, args.sf)
    answers = reference_answers(root, base, data, args.sf)
    engines = [InProcess("datafusion", root, data, base)]
    if not args.only_datafusion:
        report["small"] = small_things(root, data, target)
        print_small(report["small"])
        engines.insert(0, Thalweg(root, data, target))
    begun = time.monotonic()
    try:
        for engine in engines:
            engine.start()
        for number in map(int, args.queries.split(",")):
            if time.monotonic() - begun > args.limit:
                report["cut_short"] = f"not begun within {args.limit} s: q{number:02} and those behind it"
                print(report["cut_short"])
                break
            text = (answers / f"q{number:02}.sql").read_text()
            check = lambda n, file: equal(target / "examples/check_answer", answers, n, file)
            found = pairs(engines, number, text, args.pairs, root / "out", check)
            report["queries"][f"q{number:02}"] = found
            print(line(number, found), flush=True)
    finally:
        for engine in engines:
            engine.stop()


def main():
    args = arguments()
    clean_up_when_told_to_end()
    root = place()
    report = {"sf": args.sf, "pairs": args.pairs, "started": datetime.datetime.now().isoformat(timespec="seconds"), "queries": {}}
    try:
        run(args, root, report)
    finally:
        report["totals"] = totals(report["queries"])
        file = root / f"results/bench-{report['started'].replace(':', '')}.json"
        file.write_text(json.dumps(report, indent=1))
        print(f"results: {file}")
    if len(report["totals"]) == 3:
        ours, bound = (v for v in report["totals"].values() if isinstance(v, dict))
        print(f"{report['totals']['queries']} queries: {ours['wall_s']:.1f} s against {bound['wall_s']:.1f} s, "
              f"ratio {ours['wall_s'] / bound['wall_s']:.2f}; CPU {ours['cpu_s']:.1f} s against {bound['cpu_s']:.1f} s; "
              f"peak {ours['peak_mb']:.0f} MB against {bound['peak_mb']:.0f} MB")
    failed = [f"{q} {n}" for q, found in report["queries"].items() for n, r in found.items() if "error" in r]
    if failed:
        sys.exit(f"failed or wrong: {', '.join(failed)}")


if __name__ == "__main__":
    main()
