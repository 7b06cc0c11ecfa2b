#!/usr/bin/env python3
"""A JobManager killed when half of a job's tasks are done, and what writing records costs while nobody kills it.

    recovery.py [--sf 10] [--queries 9,21,5] [--pairs 3]

TPC-H queries of many stages run with high-availability.type = filesystem and without, in pairs on two clusters of the same size, the order changing. Then
the first cluster's JobManager is killed (kill -9) in the middle of each query and started again; the client's process waits. Counted in seconds of tasks:
what had finished and ran again, and what was running and was lost. Answers must agree. The results go to BENCH_DIR/results as JSON.
"""
import argparse
import datetime
import json
import statistics
import subprocess
import time

from bench import timed
from engines import Thalweg
from measure import clean_up_when_told_to_end, wait_for
from prepare import COLUMNS, binaries, equal, place, python_with, reference_answers, tpch_files

SETTINGS = {
    "execution.batch.single-task-threshold": "0",
    # some ten tasks for each slot, so that one of them is a small part of the job
    "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task": "16 mb",
}


def arguments():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--sf", default="10")
    args.add_argument("--queries", default="9,21,5")
    args.add_argument("--pairs", type=int, default=3, help="counted pairs per query (3)")
    return args.parse_args()


def shown(engine, *command):
    remote = ["--jobmanager", f"127.0.0.1:{engine.port}", "--json"]
    answer = subprocess.run([engine.binary, "jobs", *command, *remote], capture_output=True, text=True)
    return json.loads(answer.stdout) if answer.returncode == 0 else None


def newest(engine):
    return max(shown(engine, "list"), key=lambda job: job["submitted_at_ms"])


def attempts(job):
    return [(stage["stage"], a["task"], a) for stage in job["stages"] for a in stage["attempts"]]


def finished(job):
    return {(stage, task): a["attempt"] for stage, task, a in attempts(job) if a["state"] == "finished"}


def killed(engine, text, tasks, out):
    """Runs the query and kills the JobManager when half of the tasks are done; the client waits."""
    before = {job["job_id"] for job in shown(engine, "list")}
    script = engine.place / "out/recovery.sql"
    tables = [f"CREATE TABLE {t} ({c}) WITH ('connector'='filesystem','path'='{engine.data / t}','format'='parquet');" for t, c in COLUMNS.items()]
    script.write_text("\n".join([*tables, text.rstrip().rstrip(";") + ";"]))
    settings = [part for key, value in SETTINGS.items() for part in ("-D", f"{key}={value}")]
    started = time.monotonic()
    with open(out, "w") as rows, open(engine.log("recovery-client"), "w") as log:
        client = subprocess.Popen([engine.binary, "sql", "--jobmanager", f"127.0.0.1:{engine.port}", "-f", script, "--format", "csv", *settings],
                                  stdin=subprocess.DEVNULL, stdout=rows, stderr=log)
    job = wait_for("the job", lambda: next((j for j in shown(engine, "list") if j["job_id"] not in before), None))
    half = wait_for("half of the tasks", lambda: (lambda j: j if len(finished(j)) * 2 >= tasks else None)(shown(engine, "show", job["job_id"])), 600)
    done, dead_at = finished(half), time.time()
    engine.processes[0].kill()
    engine.processes[0].wait()
    engine.restart_jobmanager()
    restarted_at = time.time()
    if client.wait(600) != 0:
        raise RuntimeError(f"the client failed: {engine.log('recovery-client').read_text()}")
    wall = time.monotonic() - started
    after = shown(engine, "show", job["job_id"])
    seconds = lambda a: a["duration_ms"] / 1000
    total = sum(seconds(a) for _, _, a in attempts(after) if a["state"] == "finished")
    again = [(s, t) for s, t, a in attempts(after) if a["state"] == "finished" and (s, t) in done and a["attempt"] != done[s, t]]
    repeated = sum(seconds(a) for s, t, a in attempts(after) if a["state"] == "finished" and (s, t) in again)
    running = sum(dead_at - a["started_at_ms"] / 1000 for _, _, a in attempts(half) if a["state"] == "deploying")
    return {"wall_s": wall, "away_s": restarted_at - dead_at, "stages": len(after["stages"]), "tasks": tasks, "finished_before": len(done),
            "finished_and_repeated": len(again), "repeated_s": repeated, "lost_running_s": max(running, 0.0), "task_s": total,
            "share_lost": (repeated + max(running, 0.0)) / total}


def prepare(engine):
    engine.declare_tables()
    for key, value in SETTINGS.items():
        engine.driver.send(f"DDL SET '{key}' = '{value}'")


def main():
    args = arguments()
    clean_up_when_told_to_end()
    root = place()
    python, target = python_with(root, "base"), binaries()
    data = tpch_files(root, python, args.sf)
    references = reference_answers(root, python, data, args.sf)
    storage = root / "ha"
    subprocess.run(["rm", "-rf", storage], check=True)
    options = {"high-availability.type": "filesystem", "high-availability.storageDir": str(storage)}
    engines = {"on": Thalweg(root, data, target, options=options), "off": Thalweg(root, data, target)}
    report = {}
    try:
        for engine in engines.values():
            engine.start_daemons()
            engine.start_driver()
            prepare(engine)
        for number in map(int, args.queries.split(",")):
            text, walls = (references / f"q{number:02}.sql").read_text(), {"on": [], "off": []}
            for i in range(args.pairs + 1):
                for which in (("on", "off") if i % 2 == 0 else ("off", "on")):
                    file = root / f"out/recovery-q{number:02}-{which}.csv"
                    wall = timed(engines[which], text, file)["wall_s"]
                    if i > 0:
                        walls[which].append(wall)
            calm = shown(engines["on"], "show", newest(engines["on"])["job_id"])
            out = root / f"out/recovery-q{number:02}-killed.csv"
            found = killed(engines["on"], text, len(finished(calm)), out)
            # the driver's session went with the JobManager
            engines["on"].driver.close()
            engines["on"].start_driver()
            prepare(engines["on"])
            files = [root / f"out/recovery-q{number:02}-{which}.csv" for which in ("on", "off", "killed")]
            found["answers_equal"] = all(equal(target / "examples/check_answer", references, number, file) is None for file in files)
            found |= {f"wall_{which}_s": statistics.median(w) for which, w in walls.items()}
            found["on_over_off"] = statistics.median(a / b for a, b in zip(walls["on"], walls["off"]))
            report[f"q{number:02}"] = found
            print(f"q{number:02}: records on {found['wall_on_s']:.2f} s, off {found['wall_off_s']:.2f} s ({found['on_over_off']:.3f}); killed after "
                  f"{found['finished_before']} of {found['tasks']} tasks in {found['stages']} stages: {found['wall_s']:.2f} s, JobManager away "
                  f"{found['away_s']:.2f} s, {found['finished_and_repeated']} finished tasks ran again ({found['repeated_s']:.2f} s), "
                  f"{found['lost_running_s']:.2f} s under way were lost, of {found['task_s']:.1f} s of tasks: {found['share_lost']:.1%}; "
                  f"answers equal: {found['answers_equal']}", flush=True)
    finally:
        for engine in engines.values():
            engine.stop()
    file = root / f"results/recovery-{datetime.datetime.now():%Y-%m-%dT%H%M%S}.json"
    file.write_text(json.dumps(report, indent=1))
    print("results:", file)
    return 0 if all(found["answers_equal"] for found in report.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
