"""Reads `thalweg jobs … --json` from standard input for compose-test.sh. `id`: prints the id of a running job. `busy`: whether the job has
finished some task and runs another. Exit code 1: no."""
import json
import sys

shown = json.load(sys.stdin)
if sys.argv[1] == "id":
    jobs = shown["jobs"] if isinstance(shown, dict) else shown
    running = [j["job_id"] for j in jobs if "RUNNING" in str(j["state"]).upper()]
    if not running:
        sys.exit(1)
    print(running[-1])
else:
    stages = shown["stages"]
    done = any(s["finished"] > 0 for s in stages)
    sys.exit(0 if done and any(s["running"] > 0 for s in stages) else 1)
