//! Keys of the dialect that this engine has no use for. Accepted, so that existing files and scripts load, each with a
//! note that names what to use instead.

use super::DefaultValue::Unset;
use super::{OptionSpec, Status};
use crate::syntax::Kind;

const fn none(key: &'static str, description: &'static str, replaced_by: &'static str) -> OptionSpec {
    let mut option = OptionSpec::new(key, Kind::Any, Unset(""), description);
    option.status = Status::NoCounterpart { replaced_by };
    option
}

const PROCESS_SIZE: &str = "taskmanager.memory.process.size, the one limit of a process without a JVM";
const NETWORK: &str = "taskmanager.memory.network.{fraction,min,max}; buffers are sized by the engine";
const TOKEN: &str = "security.token, which every connection beyond loopback must carry";
const LOG: &str = "log.level and log.format";

#[rustfmt::skip] // a table: one option a line reads best
pub(super) static OPTIONS: &[OptionSpec] = &[
    none("jobmanager.memory.*", "JVM memory of the JobManager.", "nothing: the JobManager needs no sizing"),
    none("taskmanager.memory.flink.size", "Memory without the JVM's own.", PROCESS_SIZE),
    none("taskmanager.memory.jvm-overhead.*", "JVM memory.", PROCESS_SIZE),
    none("taskmanager.memory.jvm-metaspace.*", "JVM memory.", PROCESS_SIZE),
    none("taskmanager.memory.framework.*", "JVM memory.", PROCESS_SIZE),
    none("taskmanager.memory.task.*", "JVM memory.", PROCESS_SIZE),
    none("taskmanager.memory.managed.size", "Managed memory as a size.", "taskmanager.memory.managed.fraction, or taskmanager.memory.process.size alone"),
    none("taskmanager.memory.managed.consumer-weights", "Shares of managed memory.", "the memory arbiter, which lends between consumers"),
    none("taskmanager.memory.segment-size", "Size of a network buffer.", NETWORK),
    none("taskmanager.memory.min-segment-size", "Size of a network buffer.", NETWORK),
    none("taskmanager.memory.network.off-heap-buffer-size", "Size of a network buffer.", NETWORK),
    none("taskmanager.network.*", "Network buffers, sort and hash shuffle, back-off.", NETWORK),
    none("taskmanager.runtime.*", "Threads and spilling of JVM operators.", "io.tmp.dirs for spilled data, taskmanager.numberOfTaskSlots for threads"),
    none("env.*", "Options of JVMs and start scripts.", "the environment of the process; taskmanager.memory.process.size for memory"),
    none("blob.*", "The server that hands out jar files.", "nothing: plans travel in RPC messages"),
    none("web.*", "The web page of the JobManager.", "rest.port and rest.bind-address"),
    none("rest.bind-port", "Ports of the REST interface.", "rest.port, which takes a range"),
    none("rest.flamegraph.*", "Flame graphs of JVM threads.", "a native profiler"),
    none("rest.profiling.*", "Profiles of JVM threads.", "a native profiler"),
    none("rest.client.*", "Limits of the REST client.", "client.result.max-size and client.result.ttl"),
    none("rest.server.*", "Limits of the REST server.", "rest.port and rest.bind-address"),
    none("classloader.*", "Loading of user classes.", "nothing: there is no user code in jar files"),
    none("pipeline.jars", "Jar files of a job.", "nothing: there is no user code in jar files"),
    none("pipeline.classpaths", "Class paths of a job.", "nothing: there is no user code in jar files"),
    none("akka.*", "Actor messages.", "heartbeat.interval, heartbeat.timeout and slot.request.timeout"),
    none("pekko.*", "Actor messages.", "heartbeat.interval, heartbeat.timeout and slot.request.timeout"),
    none("execution.target", "Where a client sends jobs.", "jobmanager.rpc.address and jobmanager.rpc.port"),
    none("execution.attached", "Whether a client waits.", "the command line of the client"),
    none("kubernetes.*", "Starting processes on Kubernetes.", "ordinary deployments of the daemons"),
    none("yarn.*", "Starting processes on YARN.", "ordinary deployments of the daemons"),
    none("resourcemanager.*", "Starting TaskManagers on demand.", "TaskManagers that you start and that register by themselves"),
    none("high-availability.zookeeper.*", "Leader election by ZooKeeper.", "high-availability.type: filesystem"),
    none("high-availability.kubernetes.*", "Leader election by Kubernetes.", "high-availability.type: filesystem"),
    none("zookeeper.*", "Connections to ZooKeeper.", "high-availability.type: filesystem"),
    none("security.ssl.*", "Certificates of connections.", TOKEN),
    none("security.kerberos.*", "Kerberos.", TOKEN),
    none("python.*", "Python functions.", "nothing: there are no Python functions"),
    none("taskmanager.log.path", "Path of the log file.", LOG),
    none("taskmanager.debug.memory.*", "JVM memory in the log.", LOG),
];
