//! Whatever one side says, the other side hears, and what nobody could have said is refused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;
use thalweg_graph::{
    InputAssignment, Leaf, MapLocation, OperatorMetrics, OutputStats, Part, Placement, SplitPolicy, TaskSpec,
};
use thalweg_proto::v1;
use thalweg_types::{
    AttemptId, ErrorKind, ExchangeId, ExchangeKey, FailureCause, Interval, JobId, LeaderEpoch, MapOutputKey, StageId,
    TaskId, TaskManagerId,
};

use crate::error::Malformed;
use crate::link::{FromTaskManager, ToTaskManager};

fn attempt() -> impl Strategy<Value = AttemptId> {
    (any::<u128>(), any::<u32>(), 0..1_000_000u32, 1..u32::MAX).prop_map(|(job, stage, index, attempt)| AttemptId {
        task: TaskId { job: JobId(job), stage: StageId(stage), index },
        attempt,
    })
}

fn task_manager() -> impl Strategy<Value = TaskManagerId> {
    ("[a-zäöü0-9-]{1,20}", any::<u64>()).prop_map(|(resource, incarnation)| TaskManagerId::new(resource, incarnation))
}

fn interval(limit: u32) -> impl Strategy<Value = Interval<u32>> {
    (0..=limit, 0..=limit).prop_map(|(a, b)| Interval::new(a.min(b), a.max(b)))
}

fn part() -> impl Strategy<Value = Part> {
    let leaf = prop_oneof![any::<u32>().prop_map(Leaf::Input), any::<u32>().prop_map(Leaf::Part)];
    (vec(any::<u8>(), 0..64), vec(leaf, 0..4), 0..10_000u32).prop_map(|(bytes, inputs, first_source)| Part {
        fragment: Arc::from(bytes),
        inputs,
        first_source,
    })
}

fn payload() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..64).prop_map(Bytes::from)
}

prop_compose! {
    fn operator()(
        depth: u32, name in ".{0,40}", output_rows: u64, elapsed_nanos: u64, spilled_bytes: u64, filtered_rows: u64,
    ) -> OperatorMetrics {
        OperatorMetrics { depth, name, output_rows, elapsed_nanos, spilled_bytes, filtered_rows }
    }
}

prop_compose! {
    fn stats()(
        sizes in vec((0..1u64 << 50, 0..1u64 << 50), 0..20), spilled_bytes: u64, input_rows in vec(any::<u64>(), 0..4),
        network_bytes in vec(any::<u64>(), 0..4), cpu_nanos: u64, operators in vec(operator(), 0..4),
    ) -> OutputStats {
        let (rows, bytes) = sizes.into_iter().unzip();
        OutputStats { rows, bytes, spilled_bytes, input_rows, network_bytes, cpu_nanos, operators }
    }
}

fn cause() -> impl Strategy<Value = FailureCause> {
    let kinds = [ErrorKind::Data, ErrorKind::OutOfMemory, ErrorKind::Io, ErrorKind::Internal, ErrorKind::Cancelled];
    prop_oneof![
        (prop::sample::select(kinds.to_vec()), ".{0,80}")
            .prop_map(|(kind, message)| FailureCause::Task { kind, message }),
        (any::<u32>(), any::<u32>(), any::<u32>(), task_manager(), ".{0,80}").prop_map(
            |(exchange, map, attempt, from, detail)| FailureCause::PartitionLost {
                exchange: ExchangeId(exchange),
                map,
                attempt,
                from,
                detail
            }
        ),
        (task_manager(), ".{0,80}")
            .prop_map(|(task_manager, detail)| FailureCause::TaskManagerLost { task_manager, detail }),
    ]
}

fn held() -> impl Strategy<Value = Vec<MapOutputKey>> {
    let output = (0..3u128, 0..4u32, any::<u32>(), any::<u32>()).prop_map(|(job, exchange, map, attempt)| {
        let exchange = ExchangeKey { job: JobId(job), exchange: ExchangeId(exchange) };
        MapOutputKey { exchange, map, attempt }
    });
    vec(output, 0..10)
}

prop_compose! {
    fn register()(
        resource in "[a-z0-9.-]{1,40}", incarnation: u64, host in "[a-z][a-z0-9.-]{0,20}", port in 1..=u16::MAX,
        slots in 1..4096u32, slot_memory in 0..1u64 << 40, version in "[0-9.]{1,8}", held in held(),
    ) -> FromTaskManager {
        let (data_address, managed_memory) = (format!("{host}:{port}"), slot_memory * u64::from(slots));
        FromTaskManager::Register {
            resource, incarnation, data_address, slots, managed_memory, slot_memory, version, held,
        }
    }
}

fn from_task_manager() -> impl Strategy<Value = FromTaskManager> {
    prop_oneof![
        register(),
        Just(FromTaskManager::Heartbeat),
        (attempt(), stats(), vec(vec(any::<u32>(), 0..5), 0..4), option::of(payload()))
            .prop_map(|(attempt, stats, splits, inline)| FromTaskManager::Finished { attempt, stats, splits, inline }),
        (attempt(), cause()).prop_map(|(attempt, cause)| FromTaskManager::Failed { attempt, cause }),
        (attempt(), 0..10_000u32, any::<u64>()).prop_map(|(attempt, source, request)| FromTaskManager::NextSplit {
            attempt,
            source,
            request
        }),
        (attempt(), any::<[u64; 3]>()).prop_map(|(attempt, [rows, bytes, busy_nanos])| FromTaskManager::Progress {
            attempt,
            rows,
            bytes,
            busy_nanos
        }),
        ".{0,80}".prop_map(|detail| FromTaskManager::Leaving { detail }),
    ]
}

prop_compose! {
    fn input()(
        exchange: u32, maps in interval(1 << 20), subpartitions in interval(65_536),
        rows in option::of((any::<u64>(), any::<u64>())), placement: u64,
    ) -> InputAssignment {
        let rows = rows.map(|(a, b)| Interval::new(a.min(b), a.max(b)));
        let (per_map, shared) = (exchange % 2 == 0, exchange % 3 == 0);
        InputAssignment { exchange: ExchangeId(exchange), maps, subpartitions, rows, per_map, shared, placement }
    }
}

prop_compose! {
    fn deploy()(
        attempt in attempt(), epoch: u64, splits in vec(option::of(vec((any::<u32>(), payload()), 0..4)), 0..4),
        inputs in vec(input(), 0..4), output: u32, subpartitions in 1..=65_536u32, parallelism in 1..1000u32,
    ) -> ToTaskManager {
        let mut exact = Vec::new();
        let policies = splits.into_iter().map(|list| match list {
            None => {
                exact.push(Vec::new());
                SplitPolicy::Ask
            }
            Some(list) => {
                let (positions, payloads) = list.into_iter().unzip();
                exact.push(payloads);
                SplitPolicy::Exactly(positions)
            }
        }).collect();
        let (epoch, output) = (LeaderEpoch(epoch), ExchangeId(output));
        let result = subpartitions == 1;
        let spec = TaskSpec { attempt, epoch, splits: policies, inputs, output, result, subpartitions, parallelism };
        ToTaskManager::Deploy { spec, exact }
    }
}

prop_compose! {
    fn place()(
        job: u128, exchange: u32, version: u64, maps in vec((any::<u32>(), task_manager()), 0..10),
        addresses in vec((task_manager(), "[a-z]{1,8}:[1-9][0-9]{0,3}"), 0..4),
    ) -> ToTaskManager {
        let maps = maps.into_iter().map(|(attempt, task_manager)| MapLocation { attempt, task_manager }).collect();
        let placement = Arc::new(Placement { exchange: ExchangeId(exchange), version, maps });
        ToTaskManager::Place { job: JobId(job), placement, addresses }
    }
}

fn to_task_manager() -> impl Strategy<Value = ToTaskManager> {
    prop_oneof![
        (any::<u64>(), vec(any::<u8>(), 16..=64), 1..5000u64, 1..5000u64).prop_map(
            |(epoch, ticket_key, interval, more)| {
                ToTaskManager::Registered {
                    epoch: LeaderEpoch(epoch),
                    ticket_key,
                    heartbeat_interval: Duration::from_millis(interval),
                    heartbeat_timeout: Duration::from_millis(interval + more),
                }
            }
        ),
        ".{0,80}".prop_map(|reason| ToTaskManager::Refused { reason }),
        Just(ToTaskManager::Heartbeat),
        (any::<u128>(), any::<u32>(), vec(part(), 0..4), vec(("[a-z.]{1,20}", ".{0,20}"), 0..4)).prop_map(
            |(job, stage, parts, settings)| ToTaskManager::Stage {
                job: JobId(job),
                stage: StageId(stage),
                parts,
                settings
            }
        ),
        place(),
        deploy(),
        attempt().prop_map(|attempt| ToTaskManager::Cancel { attempt }),
        (attempt(), 0..10_000u32, any::<u64>(), option::of((any::<u32>(), payload())))
            .prop_map(|(attempt, source, request, split)| ToTaskManager::Split { attempt, source, request, split }),
        (any::<u128>(), any::<u32>()).prop_map(|(job, exchange)| ToTaskManager::ReleaseExchange {
            exchange: ExchangeKey { job: JobId(job), exchange: ExchangeId(exchange) }
        }),
        held().prop_map(|outputs| ToTaskManager::Retain { outputs }),
        any::<u128>().prop_map(|job| ToTaskManager::ReleaseJob { job: JobId(job) }),
    ]
}

proptest! {
    #[test]
    fn what_a_task_manager_says_is_heard(message in from_task_manager()) {
        let bytes = v1::FromTaskManager::from(message.clone()).encode_to_vec();
        let heard = v1::FromTaskManager::decode(&bytes[..]).unwrap();
        prop_assert_eq!(FromTaskManager::try_from(heard).unwrap(), message);
    }

    #[test]
    fn what_a_job_manager_says_is_heard(message in to_task_manager()) {
        let bytes = v1::ToTaskManager::from(message.clone()).encode_to_vec();
        let heard = v1::ToTaskManager::decode(&bytes[..]).unwrap();
        prop_assert_eq!(ToTaskManager::try_from(heard).unwrap(), message);
    }

    /// Flipped bytes are an error or another valid message, never a panic.
    #[test]
    fn damaged_messages_do_no_harm(
        from in from_task_manager(), to in to_task_manager(), at: prop::sample::Index, with: u8,
    ) {
        let mut bytes = v1::FromTaskManager::from(from).encode_to_vec();
        if !bytes.is_empty() {
            *at.get_mut(&mut bytes) = with;
            let _ = v1::FromTaskManager::decode(&bytes[..]).map(FromTaskManager::try_from);
        }
        let mut bytes = v1::ToTaskManager::from(to).encode_to_vec();
        if !bytes.is_empty() {
            *at.get_mut(&mut bytes) = with;
            let _ = v1::ToTaskManager::decode(&bytes[..]).map(ToTaskManager::try_from);
        }
    }
}

fn registration() -> v1::Register {
    v1::Register {
        resource: "tm-1".into(),
        incarnation: 1,
        data_address: "host:6122".into(),
        slots: 2,
        managed_memory_bytes: 100,
        slot_memory_bytes: 50,
        version: "0.1.0".into(),
        held: vec![],
    }
}

fn read(message: v1::from_task_manager::Message) -> Result<FromTaskManager, Malformed> {
    v1::FromTaskManager { message: Some(message) }.try_into()
}

#[test]
fn a_registration_is_checked_field_by_field() {
    use v1::from_task_manager::Message;
    assert!(read(Message::Register(registration())).is_ok());
    let spoiled: [fn(&mut v1::Register); 11] = [
        |r| r.resource.clear(),
        |r| r.resource = "x".repeat(513),
        |r| r.resource = "a\nb".into(),
        |r| r.data_address = "host".into(),
        |r| r.data_address = "host:0".into(),
        |r| r.data_address = "http://host:1/x".into(),
        |r| r.slots = 0,
        |r| r.slots = 1_000_000,
        |r| r.slot_memory_bytes = 101,
        |r| r.held.push(v1::HeldOutputs { job_id: JobId(1).to_string(), maps: vec![1], ..Default::default() }),
        |r| r.held.push(v1::HeldOutputs::default()),
    ];
    for (i, spoil) in spoiled.into_iter().enumerate() {
        let mut register = registration();
        spoil(&mut register);
        assert!(read(Message::Register(register)).is_err(), "{i}");
    }
}

#[test]
fn finish_reports_are_checked() {
    use v1::from_task_manager::Message;
    let good = v1::TaskFinished {
        attempt: Some(v1::AttemptRef { job_id: JobId(1).to_string(), stage: 0, task: 0, attempt: 1 }),
        stats: Some(v1::OutputStatistics { rows: vec![1], bytes: vec![8], ..Default::default() }),
        ..Default::default()
    };
    assert!(read(Message::Finished(good.clone())).is_ok());
    let spoiled: [fn(&mut v1::TaskFinished); 7] = [
        |f| f.attempt = None,
        |f| f.attempt.as_mut().unwrap().job_id = "1".into(),
        |f| f.attempt.as_mut().unwrap().attempt = 0,
        |f| f.stats = None,
        |f| f.stats.as_mut().unwrap().bytes.push(1),
        |f| f.stats.as_mut().unwrap().rows[0] = u64::MAX,
        |f| f.inline = Some(Bytes::from(vec![0; (64 << 10) + 1])),
    ];
    for (i, spoil) in spoiled.into_iter().enumerate() {
        let mut finished = good.clone();
        spoil(&mut finished);
        assert!(read(Message::Finished(finished)).is_err(), "{i}");
    }
}

#[test]
fn a_long_cause_is_shortened_not_refused() {
    let cause = FailureCause::Task { kind: ErrorKind::Data, message: "ö".repeat(1 << 20) };
    let attempt = AttemptId { task: TaskId { job: JobId(1), stage: StageId(0), index: 0 }, attempt: 1 };
    let sent = v1::FromTaskManager::from(FromTaskManager::Failed { attempt, cause });
    let FromTaskManager::Failed { cause: FailureCause::Task { message, .. }, .. } = sent.try_into().unwrap() else {
        panic!("another message")
    };
    assert!(message.len() < 20_000 && message.ends_with("bytes more)"), "{}", message.len());
}

#[test]
fn a_placement_names_only_listed_task_managers() {
    let placement = v1::ExchangePlacement {
        maps: vec![v1::MapPlace { attempt: 1, task_manager: 1 }],
        task_managers: vec![v1::TaskManagerRef { resource: "a".into(), incarnation: 0 }],
        ..Default::default()
    };
    let place = v1::Place { job_id: JobId(1).to_string(), placement: Some(placement), addresses: vec![] };
    let message = v1::ToTaskManager { message: Some(v1::to_task_manager::Message::Place(place)) };
    assert!(matches!(ToTaskManager::try_from(message), Err(Malformed::Value { field: "maps.task_manager", .. })));
}
