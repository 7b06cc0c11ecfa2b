//! Bytes that no client of ours sends: whatever arrives at a port, the daemons live on and answer the next query.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use thalweg_integration_tests::cluster::{Cluster, Options};
use thalweg_integration_tests::tpch::{self, Scale};

const LIMIT: Duration = Duration::from_secs(5);

/// The preface every HTTP/2 connection starts with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(length: u32, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Bytes without structure, the same in every run.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    let settings = frame(0, 4, 0, 0, &[]);
    let with_preface = |rest: &[u8]| [PREFACE, &settings, rest].concat();
    // HEADERS of a literal path without indexing: POST /x with a gRPC body that claims four gigabytes.
    let huge_message = [0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
    vec![
        ("nothing at all", vec![]),
        ("one byte", vec![0]),
        ("noise", noise(64 * 1024)),
        ("a long run of 0xff", vec![0xff; 8 << 20]),
        ("an endless HTTP/1.1 header", [b"GET / HTTP/1.1\r\nx: ".as_slice(), &vec![b'a'; 4 << 20]].concat()),
        ("a broken request line", b"\r\n\r\nGET\r\n\r\n".to_vec()),
        (
            "HTTP/1.1 with two lengths",
            b"POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nhello".to_vec(),
        ),
        ("a path out of the tree", b"GET /../../../../etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        ("the start of a TLS handshake", [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], noise(500).as_slice()].concat()),
        ("a preface and noise", with_preface(&noise(4096))),
        ("a frame of the largest length", with_preface(&frame(0xff_ffff, 0, 0, 1, &noise(1024)))),
        ("data on a stream never opened", with_preface(&frame(8, 0, 1, 1, &huge_message))),
        ("a window update of zero", with_preface(&frame(4, 8, 0, 0, &[0; 4]))),
        ("a thousand pings", with_preface(&frame(8, 6, 0, 0, &[7; 8]).repeat(1000))),
        ("headers that do not decode", with_preface(&frame(64, 1, 4, 1, &[0xff; 64]))),
    ]
}

/// Sends the bytes and reads whatever comes back, within the time limit; being cut off is an answer too.
fn send(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).expect("the port is open");
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read(&mut [0; 4096]);
}

#[test]
fn any_bytes_at_any_port_leave_the_daemons_alive() {
    let mut cluster = Cluster::start(Options::new(1, 2));
    let overview = cluster.wire.overview().unwrap();
    let data = overview.task_managers[0].data_address.clone();
    for (port, address) in [("rpc", cluster.rpc_address()), ("rest", cluster.rest_address()), ("data", data)] {
        let address: SocketAddr = address.parse().unwrap_or_else(|e| panic!("{port} address {address}: {e}"));
        for (name, bytes) in attacks() {
            send(address, &bytes);
            assert!(cluster.jobmanager().is_running(), "the JobManager ended after {name} at its {port} port");
            assert!(cluster.task_manager(0).is_running(), "the TaskManager ended after {name} at the {port} port");
        }
        still_answers(&cluster, port);
    }
}

/// Connections that say nothing may not keep others out.
#[test]
fn idle_connections_do_not_keep_clients_out() {
    let cluster = Cluster::start(Options::new(1, 2));
    let data = cluster.wire.overview().unwrap().task_managers[0].data_address.clone();
    let mut held = Vec::new();
    for address in [cluster.rpc_address(), cluster.rest_address(), data] {
        let address: SocketAddr = address.parse().unwrap();
        held.extend((0..200).map(|_| TcpStream::connect_timeout(&address, LIMIT).expect("the port is open")));
    }
    still_answers(&cluster, "every");
    drop(held);
}

/// Messages that are well-formed gRPC and nonsense inside.
#[test]
fn nonsense_in_well_formed_messages_is_an_error() {
    let cluster = Cluster::start(Options::new(1, 2));
    let oversized = format!("SELECT '{}'", "x".repeat(64 << 20));
    assert!(cluster.wire.submit(&oversized, &[]).is_err(), "a script of 64 MiB was accepted");
    assert!(cluster.wire.submit("", &[]).is_err());
    assert!(cluster.wire.submit("SELECT 1", &[("no.such.key", "1")]).is_err());
    assert!(cluster.wire.submit(&format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000)), &[]).is_err());
    assert!(cluster.wire.job("../../etc").is_err());
    for ticket in [Vec::new(), b"ticket".to_vec(), noise(1024), vec![0; 1 << 20]] {
        assert!(cluster.wire.rows(&ticket).is_err(), "a forged ticket was accepted");
    }
    still_answers(&cluster, "every");
}

fn still_answers(cluster: &Cluster, port: &str) {
    let result = cluster.sql(&tpch::script(3, Scale::Hundredth), &[("execution.batch.single-task-threshold", "0")]);
    let checked = result.and_then(|table| tpch::check(3, Scale::Hundredth, &table));
    checked.unwrap_or_else(|why| panic!("after the attacks on the {port} port: {why}"));
}
