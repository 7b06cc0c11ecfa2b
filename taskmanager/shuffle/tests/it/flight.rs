//! The data plane over loopback: what is sent arrives, and nothing else is believed.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::utils::flight_data_to_batches;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use thalweg_rpc::TicketKey;
use thalweg_shuffle::ExchangeStore;
use thalweg_shuffle::flight::*;
use thalweg_types::{Interval, LeaderEpoch};
use tonic::{Request, Response, Status, Streaming};

use crate::support::*;

const INCARNATION: u64 = 77;

fn secret() -> TicketKey {
    TicketKey::from_token("cluster secret")
}

fn ticket(maps: Interval<u32>, subpartitions: Interval<u32>) -> thalweg_rpc::ExchangeTicket {
    let epoch = LeaderEpoch(5);
    thalweg_rpc::ExchangeTicket {
        exchange: exchange_key(1),
        maps,
        subpartitions,
        rows: None,
        epoch,
        incarnation: INCARNATION,
    }
}

fn options() -> ServerOptions {
    ServerOptions::new(INCARNATION, Arc::new(AtomicU64::new(5)), secret())
}

async fn serve(store: &Arc<ExchangeStore>, options: ServerOptions) -> TestServer {
    TestServer::start(ExchangeService::new(store.clone(), options).into_server()).await
}

fn channels(change: impl FnOnce(&mut ChannelOptions)) -> DataChannels {
    let mut options = ChannelOptions::default();
    change(&mut options);
    DataChannels::new(options, NetworkBudget::new(1 << 30)).unwrap()
}

async fn open(
    channels: &DataChannels,
    address: &str,
    ticket: Bytes,
    batch: &RecordBatch,
) -> Result<FetchStream, FetchError> {
    let schema = thalweg_shuffle::exchange_schema(&batch.schema()).unwrap();
    let window = channels.budget().reserve(1, channels.options().stream_window, Duration::from_secs(1)).await;
    fetch(channels, address, ticket, schema, window).await
}

async fn drain(mut stream: FetchStream) -> Result<Vec<FetchItem>, FetchError> {
    let mut items = Vec::new();
    while let Some(item) = stream.next().await? {
        items.push(item);
    }
    Ok(items)
}

/// Three maps, the second one without rows for the upper half.
fn filled(limit: u64) -> (TestStore, RecordBatch) {
    let t = store(limit, |o| o.flush_bytes = 300_000);
    let mut rng = Rng(21);
    for map in 0..3 {
        let batches: Vec<_> = (0..4).map(|_| random_batch(&mut rng, 700)).collect();
        let hashes: Vec<_> = (0..4)
            .map(|_| random_hashes(&mut rng, 700).into_iter().map(|h| if map == 1 { h >> 1 } else { h }).collect())
            .collect();
        write(&t.store, key(1, map, 1), &batches, &hashes, 64);
    }
    (t, random_batch(&mut rng, 1))
}

#[tokio::test]
async fn a_stream_has_the_rows_of_its_interval_map_after_map() {
    for limit in [u64::MAX / 2, 0] {
        let (t, sample) = filled(limit);
        let server = serve(&t.store, options()).await;
        let channels = channels(|_| {});
        for (from, to) in [(0, 64), (10, 11), (40, 64), (63, 64)] {
            let ticket = ticket(Interval::new(0, 9), Interval::new(from, to)).sign(&secret());
            let items = drain(open(&channels, &server.address, ticket, &sample).await.unwrap()).await.unwrap();
            for map in 0..3 {
                let own: Vec<_> = items.iter().filter(|i| i.map == map).collect();
                let batches: Vec<_> = own.iter().map(|i| i.batch.clone()).collect();
                assert_eq!(concat(&batches), read(&t.store, key(1, map, 1), from, to), "map {map} [{from},{to})");
                assert_eq!(own.iter().filter(|i| i.end_of_map).count(), 1, "each map has an end, an empty one too");
                assert!(own.last().unwrap().end_of_map);
            }
            assert!(items.windows(2).all(|w| w[0].map <= w[1].map));
        }
    }
}

#[tokio::test]
async fn any_flight_client_can_read_a_stream() {
    let (t, _) = filled(u64::MAX / 2);
    let server = serve(&t.store, options()).await;
    let ticket = ticket(Interval::new(0, 3), Interval::new(0, 64)).sign(&secret());
    let channel = channels(|_| {}).get(&server.address).unwrap();
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(64 << 20);
    let stream = client.do_get(arrow_flight::Ticket { ticket }).await.unwrap().into_inner();
    let data: Vec<FlightData> = stream.try_collect().await.unwrap();
    let rows: usize = flight_data_to_batches(&data).unwrap().iter().map(|b| b.num_rows()).sum();
    assert_eq!(rows, 3 * 4 * 700);
}

#[tokio::test]
async fn who_may_not_ask_is_told_so() {
    let (t, sample) = filled(u64::MAX / 2);
    let epoch = Arc::new(AtomicU64::new(5));
    let with_token = ServerOptions { epoch: epoch.clone(), token: Some("s3cret".into()), ..options() };
    let server = serve(&t.store, with_token).await;
    let good = ticket(Interval::new(0, 3), Interval::new(0, 64));
    let with = |token: &str| channels(|o| o.token = Some(token.into()));

    let none = open(&channels(|_| {}), &server.address, good.sign(&secret()), &sample).await.unwrap_err();
    assert!(matches!(none, FetchError::Denied { .. }), "{none}");
    let wrong = open(&with("s3creT"), &server.address, good.sign(&secret()), &sample).await.unwrap_err();
    assert!(matches!(wrong, FetchError::Denied { .. }), "{wrong}");
    let right = with("s3cret");
    let forged = open(&right, &server.address, good.sign(&TicketKey::from_token("guess")), &sample).await.unwrap_err();
    assert!(matches!(forged, FetchError::Denied { .. }), "{forged}");
    let restarted = thalweg_rpc::ExchangeTicket { incarnation: 78, ..good.clone() }.sign(&secret());
    let stale = open(&right, &server.address, restarted, &sample).await.unwrap_err();
    assert!(matches!(stale, FetchError::Stale { .. }), "{stale}");
    let elsewhere = thalweg_rpc::ExchangeTicket { exchange: exchange_key(9), ..good.clone() }.sign(&secret());
    let unknown = open(&right, &server.address, elsewhere, &sample).await.unwrap_err();
    assert!(matches!(unknown, FetchError::NotFound { .. }), "{unknown}");
    let long = open(&right, &server.address, vec![0; 5000].into(), &sample).await.unwrap_err();
    assert!(matches!(long, FetchError::Denied { .. }), "{long}");
    let huge = open(&right, &server.address, vec![0; 1 << 20].into(), &sample).await.unwrap_err();
    assert!(!matches!(huge, FetchError::Denied { .. }), "{huge}");
    epoch.store(6, Ordering::Release);
    let old = open(&right, &server.address, good.sign(&secret()), &sample).await.unwrap_err();
    assert!(matches!(old, FetchError::Stale { .. }), "{old}");
    epoch.store(5, Ordering::Release);
    drain(open(&right, &server.address, good.sign(&secret()), &sample).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn garbage_from_a_raw_socket_leaves_the_server_alive() {
    let (t, sample) = filled(u64::MAX / 2);
    let server = serve(&t.store, options()).await;
    let mut rng = Rng(8);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // a frame header that announces 16 MB, an empty settings frame, then noise
    let starts = [
        vec![],
        preface.clone(),
        [preface, vec![0, 0, 0, 4, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1]].concat(),
    ];
    for start in starts {
        let address = server.address.clone();
        let noise: Vec<u8> = (0..4096).map(|_| rng.next() as u8).collect();
        tokio::task::spawn_blocking(move || {
            let mut socket = std::net::TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let _ = socket.write_all(&start).and_then(|()| socket.write_all(&noise));
            let _ = socket.read(&mut [0; 1024]);
        })
        .await
        .unwrap();
    }
    let ticket = ticket(Interval::new(0, 3), Interval::new(0, 64)).sign(&secret());
    let items = drain(open(&channels(|_| {}), &server.address, ticket, &sample).await.unwrap()).await.unwrap();
    assert_eq!(items.iter().map(|i| i.batch.num_rows()).sum::<usize>(), 3 * 4 * 700);
}

#[tokio::test]
async fn a_host_that_is_gone_or_silent_is_unreachable_in_time() {
    let (_t, sample) = filled(u64::MAX / 2);
    let quick = channels(|o| {
        o.progress_timeout = Duration::from_millis(300);
        o.connect_timeout = Duration::from_millis(300);
    });
    let ticket = ticket(Interval::new(0, 3), Interval::new(0, 64)).sign(&secret());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap(); // accepts, never answers
    let silent = listener.local_addr().unwrap().to_string();
    let closed = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string() };
    for address in [silent, closed] {
        let started = Instant::now();
        let err = open(&quick, &address, ticket.clone(), &sample).await.unwrap_err();
        assert!(matches!(err, FetchError::Unreachable { .. }), "{err}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_streams_do_not_hold_up_another_one() {
    let t = store(u64::MAX / 2, |_| {});
    let mut rng = Rng(2);
    let batches: Vec<_> = (0..64).map(|_| simple_batch(&mut rng, 8192)).collect(); // 15 MB
    let hashes: Vec<_> = batches.iter().map(|b| random_hashes(&mut rng, b.num_rows())).collect();
    write(&t.store, key(1, 0, 1), &batches, &hashes, 64);
    let server = serve(&t.store, options()).await;
    let window = 256 << 10;
    let options = ChannelOptions { stream_window: window, ..ChannelOptions::default() };
    let budget = NetworkBudget::new(65 * window as usize);
    let channels = DataChannels::new(options, budget.clone()).unwrap();
    let bytes = ticket(Interval::new(0, 1), Interval::new(0, 64)).sign(&secret());
    let mut stalled = Vec::new();
    for _ in 0..64 {
        let mut stream = open(&channels, &server.address, bytes.clone(), &batches[0]).await.unwrap();
        assert!(stream.next().await.unwrap().is_some());
        stalled.push(stream);
    }
    assert_eq!(budget.available(), window as usize);
    let last = open(&channels, &server.address, bytes, &batches[0]).await.unwrap();
    let items = tokio::time::timeout(Duration::from_secs(30), drain(last)).await.expect("it must finish").unwrap();
    assert_eq!(items.iter().map(|i| i.batch.num_rows()).sum::<usize>(), 64 * 8192);
    drop(stalled);
    assert_eq!(budget.available(), 65 * window as usize);
}

/// Sends whatever it is given.
struct Liar(Vec<FlightData>);

fn no<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented(""))
}

#[async_trait]
impl FlightService for Liar {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn do_get(&self, _: Request<arrow_flight::Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let data: Vec<_> = self.0.iter().cloned().map(Ok).collect();
        Ok(Response::new(futures::stream::iter(data).boxed()))
    }
    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        no()
    }
    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        no()
    }
    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        no()
    }
    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        no()
    }
    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        no()
    }
    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        no()
    }
    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        no()
    }
    async fn do_action(&self, _: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        no()
    }
    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        no()
    }
}

/// The messages of a good stream: a schema and the batches of three maps.
async fn good_messages() -> (Vec<FlightData>, RecordBatch) {
    let (t, sample) = filled(u64::MAX / 2);
    let server = serve(&t.store, options()).await;
    let ticket = ticket(Interval::new(0, 3), Interval::new(0, 64)).sign(&secret());
    let channel = channels(|_| {}).get(&server.address).unwrap();
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(64 << 20);
    let stream = client.do_get(arrow_flight::Ticket { ticket }).await.unwrap().into_inner();
    (stream.try_collect().await.unwrap(), sample)
}

async fn told(messages: Vec<FlightData>, sample: &RecordBatch) -> Result<Vec<FetchItem>, FetchError> {
    let server = TestServer::start(FlightServiceServer::new(Liar(messages))).await;
    let channels = channels(|o| o.max_message_bytes = 2 << 20);
    drain(open(&channels, &server.address, Bytes::new(), sample).await?).await
}

fn changed(data: &Bytes, at: usize) -> Bytes {
    let mut bytes = data.to_vec();
    bytes[at] ^= 1;
    bytes.into()
}

#[tokio::test]
async fn a_peer_that_lies_is_found_out() {
    let (good, sample) = good_messages().await;
    told(good.clone(), &sample).await.unwrap();
    let check = async |what: &str, change: &dyn Fn(&mut Vec<FlightData>)| {
        let mut messages = good.clone();
        change(&mut messages);
        let err = told(messages, &sample).await.unwrap_err();
        assert!(matches!(err, FetchError::Corrupt { .. } | FetchError::Decode { .. }), "{what}: {err}");
    };
    check("a changed body", &|m| m[1].data_body = changed(&m[1].data_body, 100)).await;
    check("a changed header", &|m| m[1].data_header = changed(&m[1].data_header, 9)).await;
    check("another row count", &|m| m[1].app_metadata = changed(&m[1].app_metadata, 12)).await;
    check("another map", &|m| m[1].app_metadata = changed(&m[1].app_metadata, 7)).await;
    check("no metadata", &|m| m[1].app_metadata = Bytes::new()).await;
    check("no schema", &|m| drop(m.remove(0))).await;
    check("two schemas", &|m| m.insert(1, m[0].clone())).await;
    check("other types", &|m| m[0].app_metadata = changed(&m[0].app_metadata, 20)).await;
    check("a message twice", &|m| m.push(m[m.len() - 1].clone())).await;
    check("maps that descend", &|m| m.push(m[1].clone())).await;
    check("an oversized message", &|m| m[1].data_body = vec![0; 3 << 20].into()).await;
    check("an end in the middle of a map", &|m| {
        let last = m.len() - 1;
        m[last].app_metadata = changed(&m[last].app_metadata, 2);
    })
    .await;
}
