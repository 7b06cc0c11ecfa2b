"""Processes: starting and ending them, and what they use, read from /proc.

CPU is user plus system time of a process and its descendants; memory is the highest sum of their resident sets seen, one look each
100 ms. Seconds and megabytes (2^20 bytes) throughout.
"""
import os
import signal
import socket
import subprocess
import sys
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def _stat(pid):
    """The fields of /proc/PID/stat behind the command name, or None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None


def family(pids):
    """The processes and all their descendants."""
    children = {}
    for entry in os.listdir("/proc"):
        stat = _stat(entry) if entry.isdigit() else None
        if stat:
            children.setdefault(int(stat[1]), []).append(int(entry))
    found, todo = [], list(pids)
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def cpu_seconds(pids):
    stats = [s for s in map(_stat, family(pids)) if s]
    return sum(int(s[11]) + int(s[12]) for s in stats) / TICKS


def resident_mb(pids):
    total = 0
    for pid in family(pids):
        try:
            with open(f"/proc/{pid}/statm") as f:
                total += int(f.read().split()[1]) * PAGE
        except OSError:
            pass
    return total / 2**20


def anonymous_mb(pid):
    """Memory of its own: resident and not backed by a file."""
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/status has no RssAnon")


def machine_busy_seconds():
    """CPU seconds all processes together have used since the machine started."""
    with open("/proc/stat") as f:
        values = [int(v) for v in f.readline().split()[1:9]]
    return (sum(values) - values[3] - values[4]) / TICKS


class Usage:
    """`with Usage(pids) as u:` then u.cpu_s, u.peak_mb, and u.others_cpu_s: what the rest of the machine used meanwhile."""

    def __init__(self, pids):
        self.pids = pids

    def __enter__(self):
        self.peak_mb, self._stop = 0.0, threading.Event()
        self._cpu, self._busy = cpu_seconds(self.pids), machine_busy_seconds()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        while True:
            self.peak_mb = max(self.peak_mb, resident_mb(self.pids))
            if self._stop.wait(0.1):
                return

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.cpu_s = cpu_seconds(self.pids) - self._cpu
        self.others_cpu_s = max(0.0, machine_busy_seconds() - self._busy - self.cpu_s)


def spawn(command, log, env=None, **kwargs):
    """Starts a process with its output in the file `log`."""
    with open(log, "w") as out:
        return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                env={**os.environ, **(env or {})}, **kwargs)


def end(processes):
    """Asks each to end, and kills what has not within 15 seconds."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def clean_up_when_told_to_end():
    """SIGTERM becomes an exit, so that `finally` blocks end the engines."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, ask, limit=60.0):
    """Asks every 50 ms until the answer is true."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {limit} s")


def port_open(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0
