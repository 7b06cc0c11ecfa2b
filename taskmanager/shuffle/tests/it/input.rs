//! A task's input over several TaskManagers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use futures::TryStreamExt;
use thalweg_rpc::TicketKey;
use thalweg_shuffle::flight::{ChannelOptions, DataChannels, ExchangeService, NetworkBudget, ServerOptions};
use thalweg_shuffle::*;
use thalweg_types::{FailureCause, Interval, LeaderEpoch, TaskManagerId};

use crate::support::*;

fn secret() -> TicketKey {
    TicketKey::from_token("k")
}

struct Node {
    t: TestStore,
    server: Option<TestServer>,
    address: String,
    id: TaskManagerId,
}

async fn node(number: u64) -> Node {
    let t = store(u64::MAX / 2, |_| {});
    let options = ServerOptions::new(number, Arc::new(AtomicU64::new(1)), secret());
    let server = TestServer::start(ExchangeService::new(t.store.clone(), options).into_server()).await;
    let (id, address) = (TaskManagerId::new(format!("tm-{number}"), number), server.address.clone());
    Node { t, server: Some(server), address, id }
}

impl Node {
    fn location(&self) -> Location {
        Location::Remote { task_manager: self.id.clone(), address: self.address.clone() }
    }
}

/// Map `m`'s rows have keys m·10000 .. in order, in a single subpartition.
fn fill(node: &Node, map: u32, attempt: u32, rows: usize) {
    let keys = arrow::array::Int64Array::from_iter_values((0..rows as i64).map(|i| i64::from(map) * 10_000 + i));
    let strings = StringArray::from_iter_values((0..rows).map(|i| i.to_string()));
    let batch = RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(strings)]).unwrap();
    let mut writer = node.t.store.writer(key(1, map, attempt), schema(), 1).unwrap();
    (0..rows).step_by(1000).for_each(|at| writer.write(batch.slice(at, 1000.min(rows - at)), None).unwrap());
    writer.finish().unwrap();
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]))
}

fn context(local: &Node) -> ReadContext {
    let options = ChannelOptions { progress_timeout: Duration::from_secs(2), ..Default::default() };
    ReadContext {
        store: local.t.store.clone(),
        channels: Arc::new(DataChannels::new(options, NetworkBudget::new(64 << 20)).unwrap()),
        key: secret(),
        local: local.id.clone(),
    }
}

fn spec(maps: Vec<MapSource>) -> InputSpec {
    InputSpec {
        exchange: exchange_key(1),
        epoch: LeaderEpoch(1),
        maps,
        subpartitions: Interval::new(0, 1),
        rows: None,
        schema: schema(),
    }
}

/// Maps 0..9 turn by turn on the three nodes, the first of which is local; map 4 is empty.
async fn cluster() -> (Vec<Node>, InputReader) {
    let nodes = vec![node(1).await, node(2).await, node(3).await];
    let mut maps = Vec::new();
    for map in 0..9u32 {
        let node = &nodes[map as usize % 3];
        fill(node, map, 1, if map == 4 { 0 } else { 5_000 });
        let location = if map % 3 == 0 { Location::Local } else { node.location() };
        maps.push(MapSource { map, attempt: 1, location });
    }
    let input = InputReader::new(context(&nodes[0]), spec(maps)).unwrap();
    (nodes, input)
}

fn keys(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn lost(error: &ReadError) -> (u32, String) {
    match error.cause() {
        FailureCause::PartitionLost { map, from, .. } => (map, from.resource.to_string()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn maps_arrive_in_their_order_wherever_they_are() {
    let (_nodes, input) = cluster().await;
    let batches: Vec<_> = input.stream().try_collect().await.unwrap();
    let expected: Vec<i64> = (0..9).filter(|m| *m != 4).flat_map(|m| m * 10_000..m * 10_000 + 5_000).collect();
    assert_eq!(keys(&batches), expected);
    assert_eq!(input.metrics().rows(), 40_000);
    assert!(input.metrics().network_bytes() > 25_000 * 12);
    assert_eq!(input.spec().maps.len(), 9);
}

#[tokio::test]
async fn each_map_can_be_a_stream_of_its_own() {
    let (_nodes, input) = cluster().await;
    for map in 0..9 {
        let batches: Vec<_> = input.map_stream(map).try_collect().await.unwrap();
        let expected: Vec<i64> = (map as i64 * 10_000..).take(if map == 4 { 0 } else { 5_000 }).collect();
        assert_eq!(keys(&batches), expected, "map {map}");
    }
    assert!(input.map_stream(9).try_collect::<Vec<_>>().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_missing_moved_or_unreachable_is_a_lost_partition() {
    let (mut nodes, input) = cluster().await;
    let all = |input: InputReader| async move { input.stream().try_collect::<Vec<_>>().await.unwrap_err() };
    let local = nodes[0].t.store.clone();
    let base = context(&nodes[0]);
    let with = |change: &dyn Fn(&mut InputSpec)| {
        let mut spec = input.spec().clone();
        change(&mut spec);
        // channels of their own, so that no connection outlives its server
        let channels =
            Arc::new(DataChannels::new(base.channels.options().clone(), NetworkBudget::new(64 << 20)).unwrap());
        InputReader::new(ReadContext { channels, store: local.clone(), ..base.clone() }, spec).unwrap()
    };
    let other_attempt = all(with(&|s| s.maps[5].attempt = 2)).await;
    assert_eq!(lost(&other_attempt), (5, "tm-3".to_owned()), "{other_attempt}");
    let local_attempt = all(with(&|s| s.maps[3].attempt = 2)).await;
    assert_eq!(lost(&local_attempt), (3, "tm-1".to_owned()));
    let in_the_middle = all(with(&|s| s.maps[3].location = s.maps[1].location.clone())).await;
    assert_eq!(lost(&in_the_middle), (3, "tm-2".to_owned()));
    let at_the_end = all(with(&|s| {
        let location = s.maps[1].location.clone();
        s.maps.push(MapSource { map: 9, attempt: 1, location });
    }))
    .await;
    assert_eq!(lost(&at_the_end), (9, "tm-2".to_owned()));
    let restarted = all(with(&|s| {
        let Location::Remote { address, .. } = s.maps[1].location.clone() else { panic!() };
        s.maps[1].location = Location::Remote { task_manager: TaskManagerId::new("tm-2", 99), address };
    }))
    .await;
    assert_eq!(lost(&restarted), (1, "tm-2".to_owned()));

    let mut stream = input.stream();
    assert!(stream.try_next().await.unwrap().is_some());
    drop(stream);
    nodes[2].server = None;
    let unreachable = all(with(&|_| {})).await;
    assert_eq!(lost(&unreachable), (2, "tm-3".to_owned()));
}

#[tokio::test]
async fn columns_come_back_as_the_consumer_expects_them() {
    let local = node(1).await;
    fill(&local, 0, 1, 10);
    let maps = vec![MapSource { map: 0, attempt: 1, location: Location::Local }];
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let wanted =
        Arc::new(Schema::new(vec![Field::new("renamed", DataType::Int64, true), Field::new("d", dictionary, true)]));
    let spec = InputSpec { schema: wanted.clone(), ..spec(maps) };
    let input = InputReader::new(context(&local), spec).unwrap();
    let batches: Vec<_> = input.stream().try_collect().await.unwrap();
    assert_eq!(batches[0].schema(), wanted);
}

#[tokio::test]
async fn a_broadcast_is_fetched_once_and_forgotten_with_its_last_reader() {
    let (nodes, input) = cluster().await;
    let budget = Arc::new(Budget::new(u64::MAX / 2));
    let cache = BroadcastCache::new(budget.clone());
    let again = InputReader::new(context(&nodes[0]), input.spec().clone()).unwrap();
    let (a, b) = tokio::join!(cache.read(&input, 1), cache.read(&again, 1));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert!(Arc::ptr_eq(a.data(), b.data()));
    assert_eq!(a.data().rows(), 40_000);
    assert_eq!(input.metrics().rows() + again.metrics().rows(), 40_000, "one of the two did the reading");
    assert!(budget.store_used() > 40_000 * 8);
    drop(a);
    let c = cache.read(&again, 1).await.unwrap();
    assert!(Arc::ptr_eq(b.data(), c.data()));
    drop((b, c));
    assert_eq!(budget.store_used(), 0);

    let mut broken = input.spec().clone();
    broken.maps[5].attempt = 7;
    let broken = InputReader::new(context(&nodes[0]), broken).unwrap();
    assert!(cache.read(&broken, 2).await.is_err());
    assert_eq!(budget.store_used(), 0);
    assert_eq!(cache.read(&input, 2).await.unwrap().data().rows(), 40_000, "a failure is not kept");
    let held = cache.read(&input, 3).await.unwrap();
    cache.release_exchange(exchange_key(1));
    let anew = cache.read(&input, 3).await.unwrap();
    assert!(!Arc::ptr_eq(held.data(), anew.data()));
}
