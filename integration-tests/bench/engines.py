"""The engines under measurement. Each has start(), query(text, file) -> seconds, pids, stop(); all listen on loopback only.

Resources are alike: two cores in all. Thalweg, Sail, Spark and Flink run two workers of one slot each, DuckDB and DataFusion two threads in one
process. Whoever talks to an engine (its driver process) is counted with it. Flink, set up from jars, is in flink.py.
"""
import os
import subprocess
import threading

from measure import end, free_port, port_open, spawn, wait_for
from prepare import COLUMNS, HERE

WORKER_MEMORY = "4g"
QUERY_LIMIT = 600  # seconds


class Failed(Exception):
    pass


class Driver:
    """A process that runs statements for us: see driver.py and examples/query_driver.rs."""

    def __init__(self, command, log, env=None):
        with open(log, "w") as err:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                                            text=True, env={**os.environ, **(env or {})})
        try:
            self._answer(300)
        except BaseException:
            self.close()
            raise

    def _answer(self, limit):
        timer = threading.Timer(limit, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            self.process.kill()
            self.process.wait()  # so that whoever asks whether it lives hears no
            raise Failed(f"the driver ended, or took longer than {limit} s")
        verb, rest = line.rstrip("\n").split(" ", 1)
        if verb != "OK":
            raise Failed(rest)
        micros, rows = rest.split()
        return int(micros) / 1e6, int(rows)

    def send(self, line, limit=QUERY_LIMIT):
        try:
            self.process.stdin.write(" ".join(line.split()) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed("the driver has ended") from None
        return self._answer(limit)

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Engine:
    def __init__(self, place, data):
        self.place, self.data, self.processes, self.driver = place, data, [], None

    def query(self, text, file):
        return self.driver.send(f"QUERY {file} {text}")[0]

    def declare_tables(self):
        for table, columns in COLUMNS.items():
            self.driver.send(f"DDL CREATE TABLE {table} ({columns}) WITH ('connector'='filesystem',"
                             f"'path'='{self.data / table}','format'='parquet')")

    def whole(self):
        """Whether everything that was started still runs."""
        return self.driver is not None and all(p.poll() is None for p in [*self.processes, self.driver.process])

    @property
    def pids(self):
        return [p.pid for p in self.processes] + ([self.driver.process.pid] if self.driver else [])

    def stop(self):
        if self.driver:
            self.driver.close()
        end(self.processes[::-1])
        self.processes, self.driver = [], None

    def log(self, name):
        return self.place / "logs" / f"{name}.log"


class Thalweg(Engine):
    """One JobManager and two TaskManager processes of one slot."""
    name = "thalweg"

    def __init__(self, place, data, target, task_managers=2, slots=1, options=None):
        super().__init__(place, data)
        self.options = options or {}
        self.binary, self.driver_binary = target / "thalweg", target / "examples/query_driver"
        self.task_managers, self.slots = task_managers, slots

    def start_daemons(self):
        self.port, self.rest_port = free_port(), free_port()
        temporary = self.place / "tmp"
        temporary.mkdir(exist_ok=True)
        settings = {"jobmanager.rpc.address": "127.0.0.1", "jobmanager.rpc.port": self.port, "rest.port": self.rest_port, "io.tmp.dirs": temporary,
                    "filesystem.allowed-roots": self.data, **self.options}
        common = self.common = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
        worker = ["-D", f"taskmanager.numberOfTaskSlots={self.slots}", "-D", f"taskmanager.memory.process.size={WORKER_MEMORY}",
                  "-D", "taskmanager.host=127.0.0.1"]
        self.processes.append(None)
        self.restart_jobmanager()
        for i in range(self.task_managers):
            self.processes.append(spawn([self.binary, "taskmanager", *common, *worker], self.log(f"taskmanager-{i}")))
        wait_for("the TaskManagers", lambda: self.registered() == self.task_managers)
        return self

    def restart_jobmanager(self):
        self.processes[0] = spawn([self.binary, "jobmanager", *self.common], self.log("jobmanager"))
        wait_for("the JobManager's port", lambda: port_open(self.port))

    def registered(self):
        command = [self.binary, "cluster", "--jobmanager", f"127.0.0.1:{self.port}", "--json"]
        shown = subprocess.run(command, capture_output=True, text=True)
        return shown.stdout.count("data_address") if shown.returncode == 0 else -1

    def start_driver(self):
        self.driver = Driver([self.driver_binary, f"127.0.0.1:{self.port}"], self.log("thalweg-driver"))

    def start(self):
        self.start_daemons()
        self.start_driver()
        self.declare_tables()
        return self


class InProcess(Engine):
    """DuckDB or DataFusion inside the Python process that drives it."""

    def __init__(self, name, place, data, python, threads=2):
        super().__init__(place, data)
        self.name, self.python, self.threads = name, python, threads

    def start(self):
        env = {"DRIVER_THREADS": str(self.threads)}
        self.driver = Driver([self.python, HERE / "driver.py", self.name, self.data], self.log(self.name), env)
        return self


class Sail(Engine):
    """Sail in local-cluster mode: it starts its two workers itself."""
    name = "sail"

    def __init__(self, place, data, python):
        super().__init__(place, data)
        self.python = python

    def start(self):
        port = free_port()
        env = {"SAIL_MODE": "local-cluster", "SAIL_CLUSTER__WORKER_INITIAL_COUNT": "2", "SAIL_CLUSTER__WORKER_MAX_COUNT": "2",
               "SAIL_CLUSTER__WORKER_TASK_SLOTS": "1"}
        server = [self.python.parent / "sail", "spark", "server", "--ip", "127.0.0.1", "--port", port]
        self.processes.append(spawn(server, self.log("sail"), env))
        wait_for("Sail's port", lambda: port_open(port))
        remote = {"SAIL_REMOTE": f"sc://127.0.0.1:{port}"}
        self.driver = Driver([self.python, HERE / "driver.py", "sail", self.data], self.log("sail-driver"), remote)
        return self


class Spark(Engine):
    """Spark standalone: a master and two workers with one executor of one core each."""
    name = "spark"

    def __init__(self, place, data, python):
        super().__init__(place, data)
        self.python = python

    def start(self):
        home = next((self.python.parents[1] / "lib").glob("python3*")) / "site-packages/pyspark"
        temporary = self.place / "tmp"
        temporary.mkdir(exist_ok=True)
        env = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(self.python),
               "SPARK_LOCAL_DIRS": str(temporary), "SPARK_WORKER_DIR": str(temporary / "spark"), "SPARK_DAEMON_MEMORY": "512m"}
        port = free_port()
        master = f"spark://127.0.0.1:{port}"
        command = [home / "bin/spark-class", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port,
                   "--webui-port", free_port()]
        self.processes.append(spawn(command, self.log("spark-master"), env))
        wait_for("Spark's master", lambda: port_open(port))
        for i in range(2):
            command = [home / "bin/spark-class", "org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", WORKER_MEMORY,
                       "--host", "127.0.0.1", "--webui-port", free_port(), master]
            self.processes.append(spawn(command, self.log(f"spark-worker-{i}"), env))
        conf = {"spark.executor.memory": WORKER_MEMORY, "spark.executor.cores": "1", "spark.driver.memory": "1g",
                "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false"}
        env.update({"SPARK_MASTER": master, "SPARK_CONF": ";".join(f"{k}={v}" for k, v in conf.items()),
                    "PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell"})
        self.driver = Driver([self.python, HERE / "driver.py", "spark", self.data], self.log("spark-driver"), env)
        return self
