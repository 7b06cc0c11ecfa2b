//! Random batches of every type, keys, and a partitioner that is obviously right.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, concat_batches, interleave_record_batch};
use arrow::datatypes::*;
use tempfile::TempDir;
use thalweg_shuffle::{Budget, ExchangeStore, MapStats, StoreOptions, subpartition};
use thalweg_types::{ExchangeId, ExchangeKey, Interval, JobId, MapOutputKey};
use tonic::body::Body;
use tonic::server::NamedService;
use xxhash_rust::xxh3::xxh3_64;

/// A small generator of numbers, so that a seed gives the same test everywhere.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        xxh3_64(&self.0.to_le_bytes())
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

pub fn key(exchange: u32, map: u32, attempt: u32) -> MapOutputKey {
    MapOutputKey { exchange: exchange_key(exchange), map, attempt }
}

pub fn exchange_key(exchange: u32) -> ExchangeKey {
    ExchangeKey { job: JobId(0xA11CE), exchange: ExchangeId(exchange) }
}

pub struct TestStore {
    pub store: Arc<ExchangeStore>,
    _dir: TempDir,
}

pub fn store(limit: u64, change: impl FnOnce(&mut StoreOptions)) -> TestStore {
    let dir = tempfile::tempdir().unwrap();
    let mut options = StoreOptions { spill_dirs: vec![dir.path().to_owned()], ..StoreOptions::default() };
    options.evict_interval = std::time::Duration::from_secs(3600); // only writers spill, unless a test wants otherwise
    change(&mut options);
    TestStore { store: ExchangeStore::new(options, Arc::new(Budget::new(limit))).unwrap(), _dir: dir }
}

pub fn random_hashes(rng: &mut Rng, rows: usize) -> Vec<u64> {
    // a tenth of the rows share one key
    (0..rows).map(|_| if rng.below(10) == 0 { 0x1234_5678_9ABC_DEF0 } else { rng.next() }).collect()
}

fn nulls(rng: &mut Rng, rows: usize) -> Option<NullBuffer> {
    match rng.below(3) {
        0 => None,
        _ => Some((0..rows).map(|_| rng.below(4) != 0).collect::<Vec<bool>>().into()),
    }
}

fn with_nulls(array: ArrayRef, rng: &mut Rng) -> ArrayRef {
    let Some(nulls) = nulls(rng, array.len()) else { return array };
    make_array(array.to_data().into_builder().nulls(Some(nulls)).build().unwrap())
}

fn words(rng: &mut Rng, rows: usize) -> Vec<String> {
    (0..rows).map(|_| "naïve·".chars().cycle().take(rng.below(24) as usize).collect()).collect()
}

/// One column of every type that an exchange carries, and of those that it stores as another one.
pub fn every_column(rng: &mut Rng, rows: usize) -> Vec<(&'static str, ArrayRef)> {
    let longs: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.next() as i64 >> 8)));
    let small: ArrayRef = Arc::new(Int32Array::from_iter_values((0..rows).map(|_| rng.below(100) as i32)));
    let strings: ArrayRef = Arc::new(StringArray::from_iter_values(words(rng, rows)));
    let fixed: Vec<[u8; 3]> = (0..rows).map(|_| [rng.next() as u8, 1, 2]).collect();
    let list_lengths: Vec<usize> = (0..rows).map(|_| rng.below(4) as usize).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        list_lengths.iter().map(|&n| (n > 0).then(|| (0..n as i32).map(Some).collect::<Vec<_>>())),
    );
    let structs = StructArray::from(vec![
        (Arc::new(Field::new("x", DataType::Int64, true)), longs.clone()),
        (Arc::new(Field::new("y", DataType::Utf8, true)), strings.clone()),
    ]);
    let as_type = |array: &ArrayRef, t: DataType| cast(array, &t).unwrap();
    let columns: Vec<(&'static str, ArrayRef)> = vec![
        ("i8", as_type(&small, DataType::Int8)),
        ("i16", as_type(&small, DataType::Int16)),
        ("i32", small.clone()),
        ("i64", longs.clone()),
        ("u64", Arc::new(UInt64Array::from_iter_values((0..rows).map(|_| rng.next())))),
        ("f32", as_type(&small, DataType::Float32)),
        ("f64", as_type(&longs, DataType::Float64)),
        ("bool", Arc::new(BooleanArray::from((0..rows).map(|_| rng.below(2) == 0).collect::<Vec<_>>()))),
        ("date32", as_type(&small, DataType::Date32)),
        ("ts", as_type(&longs, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))),
        (
            "dec128",
            Arc::new(
                Decimal128Array::from_iter_values((0..rows).map(|_| i128::from(rng.next() as i64)))
                    .with_precision_and_scale(38, 2)
                    .unwrap(),
            ),
        ),
        (
            "dec256",
            Arc::new(Decimal256Array::from_iter_values((0..rows).map(|_| i256::from_i128(i128::from(rng.next()))))),
        ),
        (
            "mdn",
            Arc::new(IntervalMonthDayNanoArray::from_iter_values(
                (0..rows).map(|i| IntervalMonthDayNano::new(i as i32, -1, 7)),
            )),
        ),
        ("dt", Arc::new(IntervalDayTimeArray::from_iter_values((0..rows).map(|i| IntervalDayTime::new(i as i32, 3))))),
        ("utf8", strings.clone()),
        ("largeutf8", as_type(&strings, DataType::LargeUtf8)),
        ("binary", as_type(&strings, DataType::Binary)),
        ("largebinary", as_type(&strings, DataType::LargeBinary)),
        (
            "fixed",
            Arc::new(FixedSizeBinaryArray::try_from_iter(fixed.into_iter().chain([[0; 3]])).unwrap().slice(0, rows)),
        ),
        ("list", Arc::new(lists)),
        ("struct", Arc::new(structs)),
    ];
    let mut columns: Vec<_> = columns.into_iter().map(|(name, array)| (name, with_nulls(array, rng))).collect();
    columns.push(("null", Arc::new(NullArray::new(rows))));
    columns.push(("view", as_type(&strings, DataType::Utf8View)));
    columns
        .push(("dict", as_type(&strings, DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)))));
    columns
}

/// Every column, as a slice out of a larger batch.
pub fn random_batch(rng: &mut Rng, rows: usize) -> RecordBatch {
    let (before, after) = (rng.below(20) as usize, rng.below(20) as usize);
    let columns = every_column(rng, before + rows + after);
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
        .slice(before, rows)
}

/// Integers and strings only: what most tests need.
pub fn simple_batch(rng: &mut Rng, rows: usize) -> RecordBatch {
    let longs: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.next() as i64)));
    let strings: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|_| format!("{:016x}", rng.next()))));
    RecordBatch::try_from_iter_with_nullable([("k", longs, true), ("s", strings, true)]).unwrap()
}

/// The rows of each subpartition in the order they came.
pub fn naive(batches: &[RecordBatch], hashes: &[Vec<u64>], subpartitions: u32) -> BTreeMap<u32, RecordBatch> {
    let mut rows: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
    for (number, hashes) in hashes.iter().enumerate() {
        for (row, &hash) in hashes.iter().enumerate() {
            rows.entry(subpartition(hash, subpartitions)).or_default().push((number, row));
        }
    }
    let refs: Vec<&RecordBatch> = batches.iter().collect();
    rows.into_iter().map(|(id, rows)| (id, interleave_record_batch(&refs, &rows).unwrap())).collect()
}

pub fn write(
    store: &Arc<ExchangeStore>,
    key: MapOutputKey,
    batches: &[RecordBatch],
    hashes: &[Vec<u64>],
    subpartitions: u32,
) -> MapStats {
    let mut writer = store.writer(key, batches[0].schema(), subpartitions).unwrap();
    for (batch, hashes) in batches.iter().zip(hashes) {
        writer.write(batch.clone(), Some(hashes)).unwrap();
    }
    writer.finish().unwrap()
}

/// Everything of an interval, as one batch; `None` if there are no rows.
pub fn read(store: &ExchangeStore, key: MapOutputKey, from: u32, to: u32) -> Option<RecordBatch> {
    let batches: Vec<_> = store.read(&key, Interval::new(from, to), None).unwrap().map(Result::unwrap).collect();
    concat(&batches)
}

pub fn concat(batches: &[RecordBatch]) -> Option<RecordBatch> {
    let first = batches.first()?;
    Some(concat_batches(&first.schema(), batches).unwrap()).filter(|b| b.num_rows() > 0)
}

/// A data plane server on a free port; stops when dropped.
pub struct TestServer {
    pub address: String,
    task: tokio::task::JoinHandle<()>,
}

impl TestServer {
    pub async fn start<S>(service: S) -> Self
    where
        S: tower::Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
        S: NamedService + Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let server = tonic::transport::Server::builder().max_frame_size(1 << 20).add_service(service);
        let task = tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
        Self { address, task }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
