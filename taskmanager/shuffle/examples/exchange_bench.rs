//! What the exchange costs: raw GB per second and per CPU second, for writing and reading in memory, with everything spilled, and
//! through Flight over loopback with one sending and one receiving thread. Rows are 4 BIGINT, 2 DECIMAL and 2 STRING of 16
//! bytes, 512 subpartitions unless told otherwise. Prints one JSON object.
//!
//! What the machine can do at most is measured in the same run: copying memory, LZ4 over the same bytes, and a plain TCP
//! connection over loopback between two threads.
//!
//! `cargo run --release -p thalweg-shuffle --example exchange_bench [rows] [subpartitions] [section]`

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use serde_json::{Value, json};
use thalweg_rpc::{ExchangeTicket, TicketKey};
use thalweg_shuffle::flight::{ChannelOptions, DataChannels, ExchangeService, NetworkBudget, ServerOptions, fetch};
use thalweg_shuffle::sizes::batch_bytes;
use thalweg_shuffle::{Budget, ExchangeStore, StoreOptions};
use thalweg_types::{ExchangeId, ExchangeKey, Interval, JobId, LeaderEpoch, MapOutputKey};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What the daemons use. Pages fresh from the kernel cost more than the partitioner, so the allocator decides much of the result.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const BATCH: usize = 8192;
const REPEATS: usize = 5;
const CONSUMERS: u32 = 16;

/// CPU seconds of this process so far, from /proc (10 ms steps).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn data(rows: usize) -> Result<Vec<RecordBatch>> {
    let value = |row: usize, column: u64| xxh3_64_with_seed(&(row as u64).to_le_bytes(), column);
    (0..rows / BATCH)
        .map(|batch| {
            let rows = batch * BATCH..(batch + 1) * BATCH;
            let mut columns: Vec<(String, ArrayRef)> = Vec::new();
            for c in 0..4 {
                let longs = Int64Array::from_iter_values(rows.clone().map(|r| (value(r, c) >> 20) as i64));
                columns.push((format!("i{c}"), Arc::new(longs)));
            }
            for c in 4..6 {
                let longs = rows.clone().map(|r| i128::from(value(r, c) >> 24));
                let decimals = Decimal128Array::from_iter_values(longs).with_precision_and_scale(20, 2)?;
                columns.push((format!("d{c}"), Arc::new(decimals)));
            }
            for c in 6..8 {
                let words = rows.clone().map(|r| format!("{:016}", value(r, c) % 1_000_000_000));
                columns.push((format!("s{c}"), Arc::new(StringArray::from_iter_values(words))));
            }
            Ok(RecordBatch::try_from_iter(columns)?)
        })
        .collect()
}

fn store(limit: u64, dir: &std::path::Path) -> Result<Arc<ExchangeStore>> {
    let options = StoreOptions { spill_dirs: vec![dir.to_owned()], ..StoreOptions::default() };
    Ok(ExchangeStore::new(options, Arc::new(Budget::new(limit)))?)
}

fn key(map: u32) -> MapOutputKey {
    let exchange = ExchangeKey { job: JobId(1), exchange: ExchangeId(0) };
    MapOutputKey { exchange, map, attempt: 1 }
}

fn write(store: &Arc<ExchangeStore>, map: u32, batches: &[RecordBatch], subpartitions: u32) -> Result<()> {
    let mut writer = store.writer(key(map), batches[0].schema(), subpartitions)?;
    let mut hashes = Vec::with_capacity(BATCH);
    for batch in batches {
        let keys = batch.column(0).to_data();
        hashes.clear();
        hashes.extend(keys.buffers()[0].typed_data::<i64>().iter().map(|k| xxh3_64(&k.to_le_bytes())));
        writer.write(batch.clone(), Some(&hashes))?;
    }
    writer.finish()?;
    Ok(())
}

fn read_all(store: &ExchangeStore, subpartitions: u32) -> Result<usize> {
    let mut rows = 0;
    for c in 0..CONSUMERS {
        let share = Interval::new(c * subpartitions / CONSUMERS, (c + 1) * subpartitions / CONSUMERS);
        for batch in store.read(&key(0), share, None)?.coalesced() {
            rows += batch?.num_rows();
        }
    }
    Ok(rows)
}

/// The median of several runs after a warm-up.
fn measure(gigabytes: f64, run: &mut dyn FnMut() -> Result<()>) -> Result<Value> {
    run()?;
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let (started, used) = (Instant::now(), cpu_seconds());
        run()?;
        wall.push(started.elapsed().as_secs_f64());
        cpu.push(cpu_seconds() - used);
    }
    wall.sort_by(f64::total_cmp);
    cpu.sort_by(f64::total_cmp);
    let per = |seconds: f64| (gigabytes / seconds * 100.0).round() / 100.0;
    Ok(json!({ "gb_per_second": per(wall[REPEATS / 2]), "gb_per_cpu_second": per(cpu[REPEATS / 2]) }))
}

fn local(limit: u64, batches: &[RecordBatch], subpartitions: u32, dir: &std::path::Path) -> Result<()> {
    let store = store(limit, dir)?;
    write(&store, 0, batches, subpartitions)?;
    let rows = read_all(&store, subpartitions)?;
    if rows != batches.len() * BATCH {
        return Err(format!("{rows} rows came back of {}", batches.len() * BATCH).into());
    }
    Ok(())
}

/// A server and a client on a thread each, over one connection.
struct Loopback {
    client: tokio::runtime::Runtime,
    channels: DataChannels,
    address: String,
    ticket: bytes::Bytes,
    _server: tokio::runtime::Runtime,
}

impl Loopback {
    fn start(store: Arc<ExchangeStore>, subpartitions: u32) -> Result<Self> {
        let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (server, client) = (runtime()?, runtime()?);
        let secret = TicketKey::from_token("bench");
        let options = ServerOptions::new(1, Arc::new(AtomicU64::new(1)), secret.clone());
        let listener = server.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?.to_string();
        let service = ExchangeService::new(store, options).into_server();
        server.spawn(
            tonic::transport::Server::builder()
                .max_frame_size(1 << 20)
                .add_service(service)
                .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)),
        );
        let channels = DataChannels::new(ChannelOptions::default(), NetworkBudget::new(64 << 20))?;
        let ticket = ExchangeTicket {
            exchange: key(0).exchange,
            maps: Interval::new(0, 1),
            subpartitions: Interval::new(0, subpartitions),
            rows: None,
            epoch: LeaderEpoch(1),
            incarnation: 1,
        };
        Ok(Self { client, channels, address, ticket: ticket.sign(&secret), _server: server })
    }

    fn read(&self, schema: arrow::datatypes::SchemaRef) -> Result<usize> {
        self.client.block_on(async {
            let window = self.channels.budget().reserve(1, 8 << 20, Duration::from_secs(1)).await;
            let mut stream = fetch(&self.channels, &self.address, self.ticket.clone(), schema, window).await?;
            let mut rows = 0;
            while let Some(item) = stream.next().await? {
                rows += item.batch.num_rows();
            }
            Ok(rows)
        })
    }
}

/// Copies `gigabytes` through a buffer that is larger than the caches.
fn memory_copy(gigabytes: f64) -> Result<()> {
    const BLOCK: usize = 64 << 20;
    let (source, mut target) = (vec![1u8; BLOCK], vec![0u8; BLOCK]);
    for _ in 0..(gigabytes * 1e9) as usize / BLOCK {
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&target);
    }
    Ok(())
}

/// Compresses every column as one block.
fn compress(batches: &[RecordBatch]) -> Result<()> {
    let mut out = Vec::new();
    for buffer in batches.iter().flat_map(|b| b.columns()).flat_map(|c| c.to_data().buffers().to_vec()) {
        out.resize(out.len().max(lz4_flex::block::get_maximum_output_size(buffer.len())), 0);
        std::hint::black_box(lz4_flex::block::compress_into(&buffer, &mut out)?);
    }
    Ok(())
}

/// Sends `gigabytes` from one thread to another in pieces of 1 MB.
fn tcp(gigabytes: f64) -> Result<()> {
    use std::io::{Read, Write};
    const PIECE: usize = 1 << 20;
    let pieces = (gigabytes * 1e9) as usize / PIECE;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut sender = std::net::TcpStream::connect(listener.local_addr()?)?;
    let sending = std::thread::spawn(move || {
        let piece = vec![1u8; PIECE];
        (0..pieces).try_for_each(|_| sender.write_all(&piece))
    });
    let (mut receiver, _) = listener.accept()?;
    let mut piece = vec![0u8; PIECE];
    (0..pieces).try_for_each(|_| receiver.read_exact(&mut piece))?;
    sending.join().map_err(|_| "the sender panicked")?.map_err(Into::into)
}

#[expect(clippy::print_stdout, reason = "the result of the measurement")]
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments.next().map_or(Ok(2_000_000), |a| a.parse())?;
    let subpartitions: u32 = arguments.next().map_or(Ok(512), |a| a.parse())?;
    let only = arguments.next();
    let batches = data(rows.max(BATCH))?;
    let gigabytes = batches.iter().map(batch_bytes).sum::<usize>() as f64 / 1e9;
    let dir = std::env::temp_dir().join(format!("exchange-bench-{}", std::process::id()));
    let memory = u64::MAX / 2;
    let schema = batches[0].schema();

    let mut result =
        json!({ "rows": batches.len() * BATCH, "subpartitions": subpartitions, "raw_gigabytes": gigabytes });
    let mut section = |name: &str, run: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        if only.as_deref().is_none_or(|only| only == name) {
            result[name] = measure(gigabytes, run)?;
        }
        Ok(())
    };
    section("machine_memory_copy", &mut || memory_copy(gigabytes))?;
    section("machine_lz4_compress", &mut || compress(&batches))?;
    section("machine_tcp_loopback", &mut || tcp(gigabytes))?;
    section("write_and_local_read", &mut || local(memory, &batches, subpartitions, &dir))?;
    section("write_spill_and_read", &mut || local(0, &batches, subpartitions, &dir))?;
    let filled = store(memory, &dir)?;
    write(&filled, 0, &batches, subpartitions)?;
    let loopback = Loopback::start(filled, subpartitions)?;
    section("flight_loopback", &mut || match loopback.read(schema.clone())? {
        rows if rows == batches.len() * BATCH => Ok(()),
        rows => Err(format!("{rows} rows arrived").into()),
    })?;
    drop(loopback);
    std::fs::remove_dir_all(&dir)?;
    println!("{result:#}");
    Ok(())
}
