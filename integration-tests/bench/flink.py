"""Flink as a standalone cluster: one JobManager and two TaskManager processes of one slot, driven by flink/Driver.java.

Flink comes as the jars of its Python wheel, without the wheel's Python dependencies. The wheel has no parquet format: the sources in flink/
are one, on top of parquet-mr from Spark's wheel. Needs a JDK of version 17 on the path.
"""
import hashlib
import json
import shutil
import subprocess
import urllib.error
import urllib.request

from engines import QUERY_LIMIT, WORKER_MEMORY, Driver, Engine, Failed
from measure import free_port, spawn, wait_for
from prepare import HERE, python_with

SOURCES = HERE / "flink"

# What the format needs of Spark's jars; Hadoop because parquet-mr names its classes.
SPARK_JARS = ["parquet-column", "parquet-common", "parquet-encoding", "parquet-format-structures", "parquet-hadoop", "parquet-jackson",
              "hadoop-client-api", "hadoop-client-runtime", "snappy-java", "zstd-jni", "jts-core"]

# The packages Flink's own start scripts open on Java 17 (env.java.opts.all of its config.yaml).
OPENED = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (
    "java.io java.lang java.lang.reflect java.net java.nio java.text java.time java.util java.util.concurrent java.util.concurrent.atomic "
    "java.util.concurrent.locks sun.nio.ch").split()]

LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1} %m%n
"""


def packages(python):
    return next((python.parents[1] / "lib").glob("python3*")) / "site-packages"


def jars(root):
    """Flink's jars and those of Spark's the parquet format needs; the environments are made when they are not there."""
    flink = sorted((packages(python_with(root, "flink")) / "pyflink/lib").glob("*.jar"))
    spark = packages(python_with(root, "spark")) / "pyspark/jars"
    return flink + [next(spark.glob(f"{name}-[0-9]*.jar")) for name in SPARK_JARS]


def compiled(root, libraries):
    """The directory of the driver's and the format's classes, compiled again when a source or a library is another."""
    for tool in ("java", "javac"):
        if not shutil.which(tool):
            raise Failed(f"no {tool} on the path: Flink needs a JDK of version 17")
    classes, sources = root / "flink/classes", sorted(SOURCES.glob("*.java"))
    stamp = hashlib.sha256(b"".join(s.read_bytes() for s in sources) + "".join(j.name for j in libraries).encode()).hexdigest()
    done = root / "flink/compiled"
    if not done.exists() or done.read_text() != stamp:
        shutil.rmtree(classes, ignore_errors=True)
        shutil.copytree(SOURCES / "META-INF", classes / "META-INF")
        command = ["javac", "--release", "17", "-nowarn", "-d", classes, "-cp", ":".join(map(str, libraries)), *sources]
        compiling = subprocess.run(command, capture_output=True, text=True)
        if compiling.returncode != 0:
            raise Failed(f"javac: {compiling.stderr.strip()}")
        done.write_text(stamp)
    return classes


class Flink(Engine):
    """Batch mode, everything else as Flink has it by itself, but for what `settings` gives a reason for."""
    name = "flink"

    def __init__(self, place, data, task_managers=2):
        super().__init__(place, data)
        self.task_managers = task_managers
        libraries = jars(place)
        self.classpath = ":".join(map(str, [compiled(place, libraries), *libraries]))
        self.utilities = libraries[0].parents[1] / "bin/bash-java-utils.jar"
        self.home, self.temporary = place / "flink", place / "tmp/flink"

    def settings(self):
        host, self.port = "127.0.0.1", free_port()
        return {
            "jobmanager.rpc.address": host, "jobmanager.bind-host": host, "jobmanager.rpc.port": free_port(),
            "taskmanager.host": host, "taskmanager.bind-host": host,
            "rest.address": host, "rest.bind-address": host, "rest.port": self.port, "rest.bind-port": self.port,
            "jobmanager.memory.process.size": "1600m", "taskmanager.memory.process.size": WORKER_MEMORY,
            "taskmanager.numberOfTaskSlots": 1,
            "io.tmp.dirs": str(self.temporary),
            "execution.target": "remote", "execution.runtime-mode": "BATCH",
            # The adaptive batch scheduler decides on the number of tasks up to this; without it, it goes far beyond the slots there are.
            "parallelism.default": self.task_managers,
            "table.optimizer.join-reorder-enabled": True,
        }

    def write_configuration(self):
        self.home.mkdir(exist_ok=True)
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in self.settings().items())
        (self.home / "config.yaml").write_text(text)
        (self.home / "log4j.properties").write_text(LOGGING)

    def java(self, main, *arguments, options=()):
        return ["java", *OPENED, *options, f"-Djava.io.tmpdir={self.temporary}", f"-Dlog4j.configurationFile={self.home}/log4j.properties",
                "-cp", self.classpath, main, *arguments]

    def sizes(self, command):
        """Options for the JVM and arguments for the process, computed from its memory by the tool Flink's start scripts use."""
        java = ["java", "-cp", f"{self.utilities}:{self.classpath}", "org.apache.flink.runtime.util.bash.BashJavaUtils", command,
                "--configDir", self.home]
        shown = subprocess.run(java, capture_output=True, text=True, check=True).stdout
        mark = "BASH_JAVA_UTILS_EXEC_RESULT:"
        options, arguments = (line.split(mark, 1)[1].split() for line in shown.splitlines() if mark in line)
        return options, arguments

    def start(self):
        self.temporary.mkdir(parents=True, exist_ok=True)
        self.write_configuration()
        options, arguments = self.sizes("GET_JM_RESOURCE_PARAMS")
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        command = self.java(main, "--configDir", self.home, "--executionMode", "cluster", *arguments, options=options)
        self.processes.append(spawn(command, self.log("flink-jobmanager")))
        options, arguments = self.sizes("GET_TM_RESOURCE_PARAMS")
        main = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        command = self.java(main, "--configDir", self.home, *arguments, options=["-XX:+UseG1GC", *options])
        for i in range(self.task_managers):
            self.processes.append(spawn(command, self.log(f"flink-taskmanager-{i}")))
        wait_for("Flink's TaskManagers", lambda: self.registered() == self.task_managers, limit=180)
        # The driver cancels a query before we lose patience with the driver.
        command = self.java("bench.Driver", QUERY_LIMIT - 60, options=["-Xmx1g"])
        self.driver = Driver(command, self.log("flink-driver"), {"FLINK_CONF_DIR": str(self.home)})
        self.declare_tables()
        return self

    def registered(self):
        if any(process.poll() is not None for process in self.processes):
            raise Failed(f"a process of Flink's ended, see {self.log('flink-*')}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/taskmanagers", timeout=5) as answer:
                return len(json.load(answer)["taskmanagers"])
        except (urllib.error.URLError, OSError, KeyError):
            return -1

    def stop(self):
        super().stop()
        shutil.rmtree(self.temporary, ignore_errors=True)
